//! A table of what the layers of a module did.

use super::observe::{Identity, Outputs, calls};
use super::{Module, walk};
use rustorch_runtime::text::{Bytes, table};
use rustorch_tensor::{DType, Result, Shape};
use std::collections::HashMap;
use std::fmt;

/// What the layers of a module did in one call, in the order of their calls: the results' shapes, parameters, floating-point operations and
/// memory that is kept for the backward pass. It prints as a table.
///
/// Each quantity is in one row: a row has what its module has and does besides the modules that have rows of their own. Rows are those of this
/// crate's layers, and the first that of the whole module. Memory is counted once, by the layer that saved it first; that of parameters and
/// buffers is not. The module computes in the mode it is in, so a norm that trains counts a batch.
///
/// ```
/// use rustorch_nn::{Layer, Linear, ReLU, seq};
/// use rustorch_tensor::{DType, Tensor};
/// let model = seq![Linear::new(4, 8)?, ReLU, Linear::new(8, 2)?];
/// let summary = model.summary(&Tensor::ones([16, 4], DType::F32)?)?;
/// let first = &summary.rows()[1];
/// assert_eq!((first.path.as_str(), first.parameters, first.outputs[0].1.dims()), ("0", 40, &[16, 8][..]));
/// println!("{summary}");
/// # Ok::<(), rustorch_tensor::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Summary {
    rows: Vec<SummaryRow>,
}

/// A call of a layer in a [`Summary`].
#[derive(Clone, Debug)]
pub struct SummaryRow {
    /// Where the layer is in the module: empty for the module itself, and for what is no member.
    pub path: String,
    /// The name of its type.
    pub type_name: &'static str,
    /// In how many calls it is.
    pub depth: usize,
    /// Dtype and shape of each result.
    pub outputs: Vec<(DType, Shape)>,
    /// How many numbers it learns, in its first call; in others, none.
    pub parameters: usize,
    /// Floating-point operations, a multiplication and an addition being two.
    pub flops: u64,
    /// Bytes that it keeps for the backward pass.
    pub saved_bytes: u64,
}

impl Summary {
    /// Calls a function, which computes a module's results, once, and says what layers did meanwhile: for modules of several arguments.
    ///
    /// ```
    /// use rustorch_nn::{Bilinear, Summary};
    /// use rustorch_tensor::{DType, Tensor};
    /// let bilinear = Bilinear::new(2, 3, 4)?;
    /// let (a, b) = (Tensor::ones([1, 2], DType::F32)?, Tensor::ones([1, 3], DType::F32)?);
    /// let summary = Summary::of(&bilinear, || bilinear.forward(&a, &b))?;
    /// assert_eq!(summary.num_parameters(), 28);
    /// # Ok::<(), rustorch_tensor::Error>(())
    /// ```
    ///
    /// # Errors
    /// Those of the function.
    pub fn of<R: Outputs>(module: &dyn Module, f: impl FnOnce() -> Result<R>) -> Result<Summary> {
        let mut paths = paths(module);
        let mut rows: Vec<SummaryRow> = Vec::new();
        for call in calls(module, f)? {
            if let Some(parent) = call.parent {
                rows[parent].flops -= call.flops;
                rows[parent].saved_bytes -= call.saved_bytes;
            }
            rows.push(SummaryRow {
                path: paths.get_mut(&call.module).map(Paths::next).unwrap_or_default(),
                type_name: call.module.1,
                depth: call.parent.map_or(0, |parent| rows[parent].depth + 1),
                outputs: call.results,
                parameters: 0,
                flops: call.flops,
                saved_bytes: call.saved_bytes,
            });
        }
        for (name, parameter) in module.named_parameters() {
            if let Some(row) = innermost(&mut rows, &name) {
                row.parameters += parameter.tensor().numel();
            }
        }
        Ok(Summary { rows })
    }

    /// The calls in order, the first that of the module.
    pub fn rows(&self) -> &[SummaryRow] {
        &self.rows
    }

    /// How many numbers the module learns.
    pub fn num_parameters(&self) -> usize {
        self.rows.iter().map(|row| row.parameters).sum()
    }

    /// The floating-point operations of all rows.
    pub fn flops(&self) -> u64 {
        self.rows.iter().map(|row| row.flops).sum()
    }

    /// The bytes that all rows keep for the backward pass.
    pub fn saved_bytes(&self) -> u64 {
        self.rows.iter().map(|row| row.saved_bytes).sum()
    }
}

/// The first row of the innermost module that a parameter is in. Every parameter is in the module of the first row.
fn innermost<'a>(rows: &'a mut [SummaryRow], parameter: &str) -> Option<&'a mut SummaryRow> {
    let is_in = |path: &str| parameter.strip_prefix(path).is_some_and(|rest| rest.starts_with('.'));
    let mut best = 0;
    for (i, row) in rows.iter().enumerate() {
        if row.path.len() > rows[best].path.len() && is_in(&row.path) {
            best = i;
        }
    }
    rows.get_mut(best)
}

/// The paths of modules that cannot be told apart, and which of them is next: layers without a size, such as `ReLU`, are called in their
/// order.
#[derive(Default)]
struct Paths {
    all: Vec<String>,
    next: usize,
}

impl Paths {
    fn next(&mut self) -> String {
        let path = self.all[self.next].clone();
        self.next = (self.next + 1) % self.all.len();
        path
    }
}

fn paths(module: &dyn Module) -> HashMap<Identity, Paths> {
    let mut modules = Vec::new();
    walk::modules(String::new(), module, &mut modules);
    let mut paths: HashMap<Identity, Paths> = HashMap::new();
    for (path, module) in modules {
        paths.entry((module.address(), module.type_name())).or_default().all.push(path);
    }
    paths
}

/// A number with commas.
fn grouped(n: u64) -> String {
    let digits = n.to_string();
    let mut text = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let line = |first: [String; 3], parameters: usize, flops: u64, saved: u64| {
            let [path, layer, output] = first;
            [path, layer, output, grouped(parameters as u64), grouped(flops), Bytes(saved).to_string()]
        };
        let row = |row: &SummaryRow| {
            let outputs: Vec<String> = row.outputs.iter().map(|(_, shape)| shape.to_string()).collect();
            let layer = format!("{:1$}{2}", "", 2 * row.depth, row.type_name);
            let first = [row.path.clone(), layer, outputs.join(", ")];
            line(first, row.parameters, row.flops, row.saved_bytes)
        };
        let total = ["total".to_owned(), String::new(), String::new()];
        let total = line(total, self.num_parameters(), self.flops(), self.saved_bytes());
        let rows: Vec<[String; 6]> = self.rows.iter().map(row).chain([total]).collect();
        table(f, ["path", "layer", "output", "parameters", "FLOPs", "saved"], &rows, |column| column >= 3)
    }
}
