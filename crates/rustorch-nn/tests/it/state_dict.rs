//! State dicts: what is copied, and the one error that lists all that does not fit.

use rustorch_nn::{Buffer, Linear, Module, StateDict};
use rustorch_tensor::{DType, Result, Tensor};

#[derive(Module)]
struct Net {
    first: Linear,
    second: Linear,
    count: Buffer,
    cache: Buffer,
}

fn net() -> Result<Net> {
    Ok(Net {
        first: Linear::new(2, 3)?,
        second: Linear::new(3, 1)?,
        count: Buffer::new(&Tensor::new([7i64])?),
        cache: Buffer::non_persistent(&Tensor::zeros([4], DType::F32)?),
    })
}

fn values(net: &Net) -> Result<Vec<Vec<f64>>> {
    net.state_dict().iter().map(|(_, x)| x.to_dtype(DType::F64)?.to_vec::<f64>()).collect()
}

#[test]
fn a_state_is_copied_into_the_parameters() -> Result<()> {
    let (from, to) = (net()?, net()?);
    let held = to.parameters();
    assert_ne!(values(&from)?, values(&to)?);
    to.load_state_dict(&from.state_dict())?;
    assert_eq!(values(&from)?, values(&to)?);
    let names: Vec<String> = from.state_dict().iter().map(|(name, _)| name.to_owned()).collect();
    assert_eq!(names, ["first.weight", "first.bias", "second.weight", "second.bias", "count"]);
    // The parameters are the same, and still leaves that require a gradient.
    assert!(held.iter().zip(to.parameters()).all(|(a, b)| a.is_same(&b) && b.tensor().requires_grad()));
    // What is copied is not shared.
    from.first.weight.tensor().detach().zero_()?;
    assert_ne!(values(&from)?, values(&to)?);
    Ok(())
}

#[test]
fn all_that_does_not_fit_is_one_error_and_changes_nothing() -> Result<()> {
    let net = net()?;
    let before = values(&net)?;
    let state: StateDict = net
        .state_dict()
        .into_iter()
        .filter(|(name, _)| name != "count")
        .map(|(name, x)| match name.as_str() {
            "first.weight" => (name, Tensor::zeros([2, 2], DType::F32).unwrap()),
            "second.bias" => ("second.bais".to_owned(), x),
            _ => (name, x.zeros_like().unwrap()),
        })
        .collect();
    let error = net.load_state_dict(&state).unwrap_err().to_string();
    for part in [
        "`first.weight` has shape [2, 2], the module's has [3, 2]",
        "`second.bias` f32[1] is missing",
        "`count` i64[1] is missing",
        "`second.bais` is unexpected, the nearest name is `second.bias`",
    ] {
        assert!(error.contains(part), "{part} in {error}");
    }
    assert_eq!(values(&net)?, before);
    // Names alone may differ where that is asked for; shapes may not.
    assert!(state.load(&net, false).is_err());
    let state =
        state.renamed(|name| if name == "first.weight" { "other".to_owned() } else { name.to_owned() });
    state.load(&net, false)?;
    assert_eq!(net.first.bias.as_ref().unwrap().tensor().to_vec::<f32>()?, [0.0; 3]);
    Ok(())
}

#[test]
fn numbers_are_converted_to_the_modules_dtype() -> Result<()> {
    let net = net()?;
    let state: StateDict = net
        .state_dict()
        .into_iter()
        .map(|(name, x)| (name, x.ones_like().unwrap().to_dtype(DType::F64).unwrap()))
        .collect();
    net.load_state_dict(&state)?;
    assert_eq!(net.first.weight.tensor().to_vec::<f32>()?, [1.0; 6]);
    assert_eq!(net.count.tensor().to_vec::<i64>()?, [1]);
    Ok(())
}
