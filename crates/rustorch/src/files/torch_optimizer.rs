//! The states of PyTorch's optimizers.

use super::{Result, Value};
use crate::{Error, Tensor};
use rustorch_nn::optim::{Optimizer, OptimizerState, ParameterState, Rule};
use std::collections::BTreeMap;

/// Entries of PyTorch's groups that say how it computes, not what, and the rate that its schedules begin with.
const NOT_OPTIONS: [&str; 7] =
    ["capturable", "differentiable", "foreach", "fused", "initial_lr", "param_names", "params"];

/// What PyTorch keeps as tensors of no dimensions, and optimizers here as numbers.
const NUMBERS: [&str; 4] = ["eta", "mu", "mu_product", "step"];

/// The numbers of options that are words: those of Muon's `adjust_lr_fn`.
const WORDS: [(&str, f64); 3] = [("original", 0.0), ("match_rms_adamw", 1.0), ("spectral_unclamped", 2.0)];

/// Loads what `optimizer.state_dict()` of PyTorch gave and `torch.save` wrote: states and options.
///
/// PyTorch counts parameters. `names` are theirs, in the order in which its optimizer got them: those of `model.named_parameters()` if that were
/// all. A file that has names itself, since its optimizer got them, needs none.
///
/// ```
/// use rustorch::files::{Value, load_torch_optimizer};
/// use rustorch::nn::Linear;
/// use rustorch::optim::{SGD, SGDOptions};
/// # use rustorch::Tensor;
/// let model = Linear::new(2, 1)?;
/// let mut optimizer = SGD::new(&model, SGDOptions::default())?;
/// # let buffer = Value::dict([("momentum_buffer", Value::Tensor(Tensor::new([[0.5f32, 1.0]])?))]);
/// # let params = Value::List(vec![Value::Int(0), Value::Int(1)]);
/// # let group = Value::dict([("lr", Value::Float(0.1)), ("momentum", Value::Float(0.9)), ("params", params)]);
/// # let state = Value::Dict(vec![(Value::Int(0), buffer)]);
/// # let checkpoint = Value::dict([("optimizer", Value::dict([("state", state), ("param_groups", Value::List(vec![group]))]))]);
/// // let checkpoint = load_torch("checkpoint.pt")?;
/// load_torch_optimizer(&mut optimizer, checkpoint.get("optimizer")?, &["weight", "bias"])?;
/// assert_eq!(optimizer.groups()[0].options().momentum, 0.9);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// If the value is no such state, there are too few or too many names, or it has options or parameters that the optimizer has not, or the
/// other way round: one that lists them; nothing is changed then.
pub fn load_torch_optimizer<R: Rule>(
    optimizer: &mut Optimizer<R>,
    state: &Value,
    names: &[impl AsRef<str>],
) -> Result<()> {
    let names: Vec<&str> = names.iter().map(AsRef::as_ref).collect();
    let mut loaded = OptimizerState::default();
    // PyTorch's numbers of parameters, and their names.
    let mut numbered: BTreeMap<i64, String> = BTreeMap::new();
    let mut counted = 0;
    for group in list(state.get("param_groups")?, "`param_groups`")? {
        let numbers = list(group.get("params")?, "`params`")?;
        let own = group.find("param_names").and_then(Value::as_list);
        let mut group_names = Vec::new();
        for (i, number) in numbers.iter().enumerate() {
            let name = match own {
                Some(own) => own.get(i).and_then(Value::as_str),
                None => names.get(counted).copied(),
            };
            counted += 1;
            let name = name.unwrap_or_default().to_owned();
            let number = number.as_int().ok_or_else(|| refuse("a parameter has no number"))?;
            numbered.insert(number, name.clone());
            group_names.push(name);
        }
        loaded.groups.push((options::<R>(group)?, group_names));
    }
    let unnamed = numbered.values().any(String::is_empty);
    if unnamed || !names.is_empty() && names.len() != counted {
        let message = format!("the state has {counted} parameters, {} names were given", names.len());
        return Err(refuse(message).into());
    }
    let entries = state.get("state")?.as_dict().ok_or_else(|| refuse("`state` is no dict"))?;
    for (number, entry) in entries {
        let name = number.as_int().and_then(|number| numbered.get(&number));
        let name = name.ok_or_else(|| refuse("a parameter of the state is in no group"))?;
        loaded.parameters.insert(name.clone(), parameter_state(name, entry)?);
    }
    Ok(optimizer.load_state_dict(&loaded)?)
}

fn refuse(what: impl Into<String>) -> Error {
    Error::argument("load_torch_optimizer", what.into())
}

fn list<'a>(value: &'a Value, what: &str) -> Result<&'a [Value]> {
    Ok(value.as_list().ok_or_else(|| refuse(format!("{what} is {}, not a list", value.type_name())))?)
}

/// What PyTorch remembers of a parameter. Complex numbers become pairs.
fn parameter_state(name: &str, entry: &Value) -> Result<ParameterState> {
    let mut state = ParameterState::default();
    let wrong = || refuse(format!("the state of `{name}` is no dict of tensors and numbers"));
    for (key, value) in entry.as_dict().ok_or_else(wrong)? {
        let key = key.as_str().ok_or_else(wrong)?;
        match value {
            // SGD without momentum.
            Value::None => {}
            Value::Tensor(x) if !NUMBERS.contains(&key) => state.set_tensor(key, real(x)?),
            value => state.set_number(key, number(value)?.ok_or_else(wrong)?),
        }
    }
    Ok(state)
}

fn real(x: &Tensor) -> Result<Tensor> {
    Ok(if x.dtype().is_complex() { x.detach().view_as_real()? } else { x.detach() })
}

/// A number, also as a tensor of one element or a switch.
fn number(value: &Value) -> Result<Option<f64>> {
    Ok(match value {
        Value::Tensor(x) => Some(x.item()?.to_f64()),
        Value::Bool(on) => Some(f64::from(u8::from(*on))),
        value => value.as_float(),
    })
}

/// The options of a group, by the names of `Options::numbers`.
fn options<R: Rule>(group: &Value) -> Result<BTreeMap<String, f64>> {
    let own: BTreeMap<String, f64> = R::default().numbers().into_iter().collect();
    let mut options = BTreeMap::new();
    let mut set = |name: String, value: &Value| -> Result<()> {
        let number = match value {
            // An option that may be `None` is −1 then; one that is a word is its default.
            Value::None => own.get(&name).copied(),
            Value::Str(word) => WORDS.iter().find(|(have, _)| have == word).map(|(_, number)| *number),
            value => number(value)?,
        };
        let number = number.ok_or_else(|| refuse(format!("the option `{name}` is {}", value.type_name())))?;
        // Always on in AdamW, which has no such option.
        if !(name == "decoupled_weight_decay" && number == 1.0 && !own.contains_key(&name)) {
            options.insert(name, number);
        }
        Ok(())
    };
    for (key, value) in group.as_dict().ok_or_else(|| refuse("a group is no dict"))? {
        let key = key.as_str().ok_or_else(|| refuse("an option has no name"))?;
        match value {
            _ if NOT_OPTIONS.contains(&key) => {}
            Value::Tuple(items) | Value::List(items) => {
                for (i, item) in items.iter().enumerate() {
                    set(format!("{key}.{i}"), item)?;
                }
            }
            value => set(key.to_owned(), value)?,
        }
    }
    Ok(options)
}
