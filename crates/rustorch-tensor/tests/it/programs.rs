//! Random programs with views, writes in place and steps without recording: values, first and second gradients against those of
//! PyTorch's autograd, or an error.
//!
//! The fixture was made by `tools/oracle/torch_programs.py` with PyTorch 2; the format is told there. Where this refuses, PyTorch
//! may not ([autograd.md](../../../../docs/autograd.md)), but a gradient that is given is PyTorch's.

#![allow(clippy::unwrap_used, reason = "a failing test panics")]

use crate::common::{fixture, saved, scalar, tensor};
use crate::ops::{BINARY, UNARY, by_name, names};
use rustorch_tensor::autograd::{GradOptions, grad, no_grad};
use rustorch_tensor::{DType, Error, Pass, Result, Tensor, TensorOrScalar, capture_with};
use serde_json::Value;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};

struct Step {
    op: String,
    args: Vec<usize>,
    attrs: Value,
    no_grad: bool,
}

/// A program, and what PyTorch computes with it.
struct Program {
    leaves: Vec<Value>,
    needs: Vec<bool>,
    steps: Vec<Step>,
    outputs: Vec<usize>,
    values: Vec<Tensor>,
    grads: Vec<Option<Tensor>>,
    second: Vec<Option<Tensor>>,
    /// PyTorch's error. Values and gradients, if there are any, are those of the program as if what was saved had not been written.
    error: Option<String>,
    /// Whether results are known.
    known: bool,
}

fn numbers(value: &Value) -> Vec<usize> {
    value.as_array().unwrap().iter().map(|n| n.as_u64().unwrap() as usize).collect()
}

fn tensors(list: &Value) -> Vec<Option<Tensor>> {
    list.as_array().into_iter().flatten().map(|t| (!t.is_null()).then(|| tensor(t))).collect()
}

impl Program {
    fn new(line: &Value) -> Program {
        let list = |key: &str| line[key].as_array().unwrap();
        let step = |step: &Value| Step {
            op: step[0].as_str().unwrap().to_owned(),
            args: numbers(&step[1]),
            attrs: step[2].clone(),
            no_grad: step[3] == 1,
        };
        let needs: Vec<bool> = list("needs").iter().map(|need| need.as_bool().unwrap()).collect();
        let wanted = needs.iter().filter(|need| **need).count();
        // Gradients that PyTorch has not are zero.
        let gradients = |key: &str| match line[key].is_array() {
            true => tensors(&line[key]),
            false => vec![None; wanted],
        };
        Program {
            leaves: list("leaves").clone(),
            needs,
            steps: list("steps").iter().map(step).collect(),
            outputs: numbers(&line["outputs"]),
            values: tensors(&line["values"]).into_iter().flatten().collect(),
            grads: gradients("grads"),
            second: gradients("second"),
            error: line["error"].is_array().then(|| format!("{} {}", line["error"][0], line["error"][1])),
            known: line["grads"].is_array(),
        }
    }

    fn has(&self, op: &str) -> bool {
        self.steps.iter().any(|step| step.op == op)
    }

    fn writes(&self) -> bool {
        self.steps.iter().any(|step| step.op.ends_with('_'))
    }

    /// The number of the last step that uses a value.
    fn last_use(&self, value: usize) -> usize {
        match self.outputs.contains(&value) || value < self.leaves.len() {
            true => usize::MAX,
            false => self.steps.iter().rposition(|step| step.args.contains(&value)).unwrap_or(0),
        }
    }

    /// New tensors of the leaves' values.
    fn leaves(&self) -> Vec<Tensor> {
        self.leaves.iter().map(tensor).collect()
    }

    /// The leaves that need a gradient, and the outputs.
    fn run(&self, leaves: &[Tensor]) -> Result<(Vec<Tensor>, Vec<Tensor>)> {
        let mut values: Vec<Option<Tensor>> = leaves.iter().cloned().map(Some).collect();
        let mut wanted = Vec::new();
        for (leaf, _) in values.iter().zip(&self.needs).filter(|(_, need)| **need) {
            let leaf = leaf.as_ref().unwrap();
            leaf.requires_grad_(true)?;
            wanted.push(leaf.clone());
        }
        for (number, step) in self.steps.iter().enumerate() {
            let args: Vec<&Tensor> = step.args.iter().map(|&i| values[i].as_ref().unwrap()).collect();
            let result = match step.no_grad {
                true => no_grad(|| step.run(&args))?,
                false => step.run(&args)?,
            };
            if let Some(result) = result {
                values.push(Some(result));
            }
            // What is used no more gives its memory back: that of one tensor alone may be written.
            for (value, place) in values.iter_mut().enumerate() {
                if self.last_use(value) <= number {
                    *place = None;
                }
            }
        }
        Ok((wanted, self.outputs.iter().map(|&i| values[i].clone().unwrap()).collect()))
    }

    /// Outputs, first and second gradients.
    fn results(&self, leaves: &[Tensor]) -> Result<Results> {
        let (wanted, outputs) = self.run(leaves)?;
        let wanted: Vec<&Tensor> = wanted.iter().collect();
        let seeds = outputs.iter().enumerate().map(|(i, y)| seed(y, i)).collect::<Result<Vec<_>>>()?;
        let (roots, seeds): (Vec<&Tensor>, Vec<Option<&Tensor>>) = outputs
            .iter()
            .zip(&seeds)
            .filter(|(y, _)| y.requires_grad())
            .map(|(y, seed)| (y, Some(seed)))
            .unzip();
        let options = GradOptions { retain_graph: true, allow_unused: true, ..Default::default() };
        let plain = grad(&roots, &wanted, &seeds, options)?;
        let first = grad(&roots, &wanted, &seeds, GradOptions { create_graph: true, ..options })?;
        let roots: Vec<(usize, &Tensor)> = first
            .iter()
            .enumerate()
            .filter_map(|(i, gradient)| Some((i, gradient.as_ref()?)))
            .filter(|(_, gradient)| gradient.requires_grad())
            .collect();
        let seeds = roots.iter().map(|(i, x)| seed(x, outputs.len() + i)).collect::<Result<Vec<Tensor>>>()?;
        let (roots, seeds): (Vec<&Tensor>, Vec<Option<&Tensor>>) =
            roots.iter().zip(&seeds).map(|((_, x), seed)| (*x, Some(seed))).unzip();
        let second = grad(&roots, &wanted, &seeds, options)?;
        Ok(Results { outputs, plain, first, second })
    }

    /// What differs from PyTorch.
    fn differences(&self) -> Result<Vec<String>> {
        let Results { outputs, plain, first, second } = self.results(&self.leaves())?;
        let mut wrong = Vec::new();
        for (i, (got, want)) in outputs.iter().zip(&self.values).enumerate() {
            wrong.extend(difference(&format!("output {i}"), Some(got), Some(want)));
        }
        for (i, want) in self.grads.iter().enumerate() {
            let what = format!("gradient {i} without create_graph");
            wrong.extend(difference(&what, plain[i].as_ref(), want.as_ref()));
            wrong.extend(difference(&format!("gradient {i}"), first[i].as_ref(), want.as_ref()));
        }
        for (i, want) in self.second.iter().enumerate() {
            wrong.extend(difference(&format!("second gradient {i}"), second[i].as_ref(), want.as_ref()));
        }
        Ok(wrong)
    }
}

/// What a program gives.
struct Results {
    outputs: Vec<Tensor>,
    /// Gradients, taken without a graph of their own.
    plain: Vec<Option<Tensor>>,
    first: Vec<Option<Tensor>>,
    second: Vec<Option<Tensor>>,
}

impl Results {
    /// All that there is, in order.
    fn all(&self) -> Vec<Tensor> {
        let grads = [&self.plain, &self.first, &self.second];
        self.outputs.iter().cloned().chain(grads.into_iter().flatten().flatten().cloned()).collect()
    }
}

impl fmt::Display for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut number = 0;
        for (leaf, need) in self.leaves.iter().zip(&self.needs) {
            writeln!(f, "  {number} = leaf, needs {need}: {}", tensor(leaf))?;
            number += 1;
        }
        for Step { op, args, attrs, no_grad } in &self.steps {
            let mode = if *no_grad { " without recording" } else { "" };
            match op.ends_with('_') {
                true => writeln!(f, "  {op} {args:?} {attrs}{mode}")?,
                false => {
                    writeln!(f, "  {number} = {op} {args:?} {attrs}{mode}")?;
                    number += 1;
                }
            }
        }
        write!(f, "  outputs {:?}; PyTorch's error {:?}", self.outputs, self.error)
    }
}

/// The seed of a tensor, as in the script.
fn seed(x: &Tensor, number: usize) -> Result<Tensor> {
    let value = |i: usize| (((7 * i + 3 * number) % 11) as f64 - 5.5) / 4.0;
    Tensor::from_vec((0..x.numel()).map(value).collect::<Vec<f64>>(), x.shape().clone())?.to_dtype(x.dtype())
}

/// How two results differ, none counting as zeros.
fn difference(what: &str, got: Option<&Tensor>, want: Option<&Tensor>) -> Option<String> {
    let near = |a: f64, b: f64| {
        a == b || a.is_nan() && b.is_nan() || b.is_finite() && (a - b).abs() <= 1e-9 + 1e-9 * b.abs()
    };
    let model = got.or(want)?;
    if got.zip(want).is_some_and(|(a, b)| a.dims() != b.dims()) {
        return Some(format!("{what} is {}, PyTorch's {}", got?.shape(), want?.shape()));
    }
    let list = |x: Option<&Tensor>| match x {
        Some(x) => x.detach().to_vec::<f64>().unwrap(),
        None => vec![0.0; model.numel()],
    };
    let (a, b) = (list(got), list(want));
    let same = a.iter().zip(&b).all(|(&a, &b)| near(a, b));
    (!same).then(|| format!("{what} is {a:?}, PyTorch's {b:?}"))
}

impl Step {
    fn int(&self, key: &str) -> usize {
        self.attrs[key].as_u64().unwrap_or_else(|| panic!("{key} of {}", self.op)) as usize
    }

    fn dim(&self) -> isize {
        self.int("dim") as isize
    }

    fn ints(&self, key: &str) -> Vec<isize> {
        self.attrs[key].as_array().unwrap().iter().map(|n| n.as_i64().unwrap() as isize).collect()
    }

    fn flag(&self, key: &str) -> bool {
        self.attrs[key].as_bool().unwrap()
    }

    fn index(&self) -> Result<Tensor> {
        let data = numbers(&self.attrs["index"]["data"]).into_iter().map(|n| n as i64).collect();
        Tensor::from_vec::<i64>(data, numbers(&self.attrs["index"]["shape"]))
    }

    fn mask(&self) -> Result<Tensor> {
        let data = self.attrs["mask"]["data"].as_array().unwrap().iter().map(|b| b.as_bool().unwrap());
        Tensor::from_vec::<bool>(data.collect(), numbers(&self.attrs["mask"]["shape"]))
    }

    /// The result; none of a step in place.
    fn run(&self, args: &[&Tensor]) -> Result<Option<Tensor>> {
        let (op, x) = (self.op.as_str(), args[0]);
        if op.ends_with('_') {
            return self.write(x, args.get(1).copied()).map(|()| None);
        }
        Ok(Some(match op {
            _ if names(UNARY).contains(&op) => by_name(UNARY, op)(x)?,
            _ if names(BINARY).contains(&op) => by_name(BINARY, op)(x, self.operand(args.get(1).copied()))?,
            "where" => x.gt(0)?.where_cond(args[1], args[2])?,
            "matmul" => x.matmul(args[1])?,
            "masked_fill" => x.masked_fill(&self.mask()?, scalar(&self.attrs["value"]).unwrap())?,
            "gather" => x.gather(self.dim(), &self.index()?)?,
            "index_select" => x.index_select(self.dim(), &self.index()?)?,
            "scatter_add" => x.scatter_add(self.dim(), &self.index()?, args[1])?,
            "cat" => Tensor::cat(args, self.dim())?,
            "stack" => Tensor::stack(args, self.dim())?,
            "copy" => x.copy()?,
            "contiguous" => x.contiguous()?,
            "detach" => x.detach(),
            "clamp" => x.clamp(scalar(&self.attrs["min"]).unwrap(), scalar(&self.attrs["max"]).unwrap())?,
            "flip" => x.flip(self.ints("dim"))?,
            "tril" => x.tril(self.attrs["diagonal"].as_i64().unwrap())?,
            "prod" => x.prod(self.dim(), self.flag("keepdim"))?,
            "cumsum" => x.cumsum(self.dim())?,
            "cumprod" => x.cumprod(self.dim())?,
            "softmax" => x.softmax(self.dim())?,
            "log_softmax" => x.log_softmax(self.dim())?,
            _ if self.attrs["keepdim"].is_boolean() => self.reduce(x)?,
            _ => self.view(x)?,
        }))
    }

    fn operand<'a>(&self, tensor: Option<&'a Tensor>) -> TensorOrScalar<'a> {
        tensor.map_or_else(|| scalar(&self.attrs["value"]).unwrap().into(), TensorOrScalar::from)
    }

    fn reduce(&self, x: &Tensor) -> Result<Tensor> {
        let (dims, keepdim) = (self.ints("dim"), self.flag("keepdim"));
        let correction = self.attrs["correction"].as_f64().unwrap_or(1.0);
        match self.op.as_str() {
            "sum" => x.sum(dims, keepdim),
            "mean" => x.mean(dims, keepdim),
            "amax" => x.amax(dims, keepdim),
            "amin" => x.amin(dims, keepdim),
            "logsumexp" => x.logsumexp(dims, keepdim),
            "var" => x.var(dims, correction, keepdim),
            "std" => x.std(dims, correction, keepdim),
            other => panic!("no test runs {other}"),
        }
    }

    fn view(&self, x: &Tensor) -> Result<Tensor> {
        let at = |key: &str| self.int(key) as isize;
        match self.op.as_str() {
            "reshape" => x.reshape(self.ints("sizes")),
            "expand" => x.expand(self.ints("sizes")),
            "permute" => x.permute(self.ints("dims")),
            "transpose" => x.transpose(self.ints("dims")[0], self.ints("dims")[1]),
            "narrow" => x.narrow(self.dim(), self.int("start"), self.int("len")),
            "slice" => x.slice(self.dim(), at("start")..at("end"), self.int("step")),
            "select" => x.select(self.dim(), at("at")),
            "diagonal" => {
                let offset = self.attrs["offset"].as_i64().unwrap() as isize;
                x.diagonal(offset, self.ints("dims")[0], self.ints("dims")[1])
            }
            "unfold" => x.unfold(self.dim(), self.int("size"), self.int("step")),
            "unsqueeze" => x.unsqueeze(self.dim()),
            "squeeze" => x.squeeze(self.dim()),
            other => panic!("no test runs {other}"),
        }
    }

    fn write(&self, x: &Tensor, y: Option<&Tensor>) -> Result<()> {
        match self.op.as_str() {
            "add_" => x.add_(self.operand(y)),
            "sub_" => x.sub_(self.operand(y)),
            "mul_" => x.mul_(self.operand(y)),
            "div_" => x.div_(self.operand(y)),
            "copy_" => x.copy_(y.unwrap()),
            "fill_" => x.fill_(scalar(&self.attrs["value"]).unwrap()),
            "masked_fill_" => x.masked_fill_(&self.mask()?, scalar(&self.attrs["value"]).unwrap()),
            "index_copy_" => x.index_copy_(self.dim(), &self.index()?, y.unwrap()),
            other => panic!("no test runs {other}"),
        }
    }
}

/// How many programs went which way.
#[derive(Debug, Default)]
struct Counts {
    equal: usize,
    /// Refused here, and not by PyTorch.
    refused: usize,
    /// Refused here and by PyTorch.
    both: usize,
    /// Refused by PyTorch alone, and right as if what was saved had not been written.
    right: usize,
}

fn lines() -> Vec<Value> {
    match std::env::var("RUSTORCH_PROGRAMS") {
        Ok(path) => std::fs::read_to_string(path)
            .unwrap()
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect(),
        Err(_) => fixture("programs.jsonl"),
    }
}

/// `RUSTORCH_PROGRAMS=FILE` runs those of another file than the fixture, and `RUSTORCH_PROGRAM=N` one of them.
#[test]
fn programs_give_pytorchs_gradients_or_refuse() {
    let lines = lines();
    let only: Option<usize> = std::env::var("RUSTORCH_PROGRAM").ok().map(|n| n.parse().unwrap());
    let (mut counts, mut wrong) = (Counts::default(), Vec::new());
    for (number, line) in lines.iter().enumerate().filter(|(number, _)| only.is_none_or(|n| n == *number)) {
        let program = Program::new(line);
        let result = catch_unwind(AssertUnwindSafe(|| program.differences()));
        let mut fail = |why: String| wrong.push(format!("program {number}:\n{program}\n  {why}"));
        match (result, &program.error) {
            (Err(_), _) => fail("panicked".into()),
            (Ok(Ok(found)), _) if !found.is_empty() && program.known => fail(found.join("\n  ")),
            (Ok(Ok(_)), Some(_)) if !program.known => fail("did not refuse".into()),
            (Ok(Ok(_)), Some(_)) => counts.right += 1,
            (Ok(Ok(_)), None) => counts.equal += 1,
            (Ok(Err(_)), Some(_)) => counts.both += 1,
            (Ok(Err(error)), None) if program.writes() => {
                counts.refused += 1;
                if only.is_some() {
                    println!("{program}\n  {error}");
                }
            }
            (Ok(Err(error)), None) => fail(format!("refused without a write: {error}")),
        }
    }
    println!("{} programs: {counts:?}, {} wrong", lines.len(), wrong.len());
    assert!(wrong.is_empty(), "{} programs are wrong:\n{}", wrong.len(), wrong.join("\n"));
    if only.is_none() {
        assert!(counts.refused * 10 <= lines.len(), "{counts:?}");
        assert!(counts.equal * 10 >= lines.len() * 7, "{counts:?}");
    }
}

fn bits(tensors: &[Tensor]) -> Vec<Vec<u64>> {
    let bits = |x: &Tensor| -> Vec<u64> {
        let x = x.detach();
        match x.dtype() {
            DType::F32 => x.to_vec::<f32>().unwrap().into_iter().map(|x| x.to_bits().into()).collect(),
            _ => x.to_vec::<f64>().unwrap().into_iter().map(f64::to_bits).collect(),
        }
    };
    tensors.iter().map(bits).collect()
}

/// What a captured program did.
#[derive(Debug, PartialEq, Eq)]
enum Outcome {
    Equal,
    /// It is refused as the eager one is.
    Refused,
    /// It takes another way for other values, which a graph cannot.
    ByValue,
}

/// A program as one graph, backward passes included: what eager execution gives, to the bit; and what it writes to, too.
fn captured(program: &Program, dtype: DType, passes: &[Pass]) -> Outcome {
    let make = || program.leaves().iter().map(|leaf| leaf.to_dtype(dtype).unwrap()).collect::<Vec<_>>();
    let (eager_leaves, leaves) = (make(), make());
    let eager = program.results(&eager_leaves).map(|results| results.all());
    let captured = capture_with(passes, &[], |_| program.results(&leaves).map(|results| results.all()));
    let (eager, captured) = match (eager, captured) {
        (Ok(eager), Ok(captured)) => (eager, captured),
        (Err(eager), Err(captured)) => {
            // Versions are counted from where memory begins.
            let reason = |error: Error| error.to_string().split(": its memory").next().map(str::to_owned);
            assert_eq!(reason(eager), reason(captured), "{program}");
            return Outcome::Refused;
        }
        // The gradients of products take another way where an element is zero.
        (Ok(_), Err(error))
            if error.to_string().starts_with("item")
                && ["cumprod", "prod"].iter().any(|op| program.has(op)) =>
        {
            return Outcome::ByValue;
        }
        (eager, captured) => panic!("eager {:?}, captured {:?}\n{program}", eager.err(), captured.err()),
    };
    assert_eq!(bits(&make()), bits(&leaves), "the capture wrote\n{program}");
    let loaded = saved(&captured);
    let got = captured.run(&[]).unwrap_or_else(|error| panic!("{error}\n{program}\n{}", captured.graph()));
    assert_eq!(bits(&got), bits(&eager), "{program}\n{}", captured.graph());
    assert_eq!(bits(&leaves), bits(&eager_leaves), "leaves of\n{program}\n{}", captured.graph());
    // Saved before, it does the same, with states of its own, which go on as those do.
    for run in 0..2 {
        let from_file = loaded.run(&[]).unwrap_or_else(|error| panic!("{error}\n{program}"));
        let got = if run == 0 { got.clone() } else { captured.run(&[]).unwrap() };
        assert_eq!(bits(&from_file), bits(&got), "run {run} from a file of\n{program}\n{}", captured.graph());
        if run == 1 {
            assert_eq!(bits(&loaded.states()), bits(&captured.states()), "{program}");
        }
    }
    Outcome::Equal
}

fn captured_with(dtype: DType, choices: &[&[Pass]]) {
    let programs: Vec<Program> = lines().iter().map(Program::new).collect();
    for passes in choices {
        let outcomes: Vec<Outcome> =
            programs.iter().map(|program| captured(program, dtype, passes)).collect();
        let count = |outcome: Outcome| outcomes.iter().filter(|other| **other == outcome).count();
        let [equal, refused, by_value] = [Outcome::Equal, Outcome::Refused, Outcome::ByValue].map(count);
        println!("{dtype} {passes:?}: {equal} equal, {refused} refused, {by_value} by value");
        assert!(equal * 5 >= programs.len() * 4, "{equal}");
    }
}

#[test]
fn captured_programs_give_eagers_bits() {
    captured_with(DType::F64, &[Pass::ALL]);
    captured_with(DType::F32, &[&[], Pass::ALL]);
}

#[test]
fn captured_programs_give_eagers_bits_with_each_pass_alone() {
    let each: Vec<&[Pass]> = Pass::ALL.iter().map(std::slice::from_ref).collect();
    captured_with(DType::F64, &each);
}
