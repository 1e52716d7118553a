//! Arguments of predictions: what is wrong with them is said before anything is computed.

use crate::cases;
use rustorch_coreml::runtime::{ArgumentError, Array, Feature, ModelState, RuntimeError, Signature};
use rustorch_coreml::{CoreMlOptions, Error, Package};
use rustorch_tensor::{DType, Tensor, TensorSpec, capture};

/// Of a program of a token and a position.
fn signature() -> Signature {
    let feature = |name: &str, dtype, dims: &[usize], below| Feature {
        name: name.to_owned(),
        dtype,
        dims: dims.to_vec(),
        below,
    };
    Signature {
        function: None,
        states: vec![],
        inputs: vec![
            feature("token", DType::I32, &[2], Some(300)),
            feature("position", DType::I32, &[2], Some(64)),
        ],
        outputs: vec![feature("logits", DType::F32, &[1, 3], None)],
    }
}

/// What is wrong with these inputs, beside an output that is right.
fn refusal(inputs: &[Array<'_>]) -> ArgumentError {
    let signature = signature();
    let mut logits = [0; 12];
    signature.check(inputs, None, &[signature.outputs[0].array_mut(&mut logits)]).unwrap_err()
}

#[test]
fn number_dtype_shape_and_bytes_are_those_of_the_program() {
    let signature = signature();
    let (bytes, mut logits) = ([0; 8], [0; 12]);
    let [token, position] = [0, 1].map(|i| signature.inputs[i].array(&bytes));
    signature.check(&[token, position], None, &[signature.outputs[0].array_mut(&mut logits)]).unwrap();

    for (inputs, message) in [
        (vec![token], "1 inputs are given, and the program has 2: token, position; give one for each"),
        (vec![token; 3], "3 inputs are given, and the program has 2: token, position"),
        (
            vec![Array { dtype: DType::F32, ..token }, position],
            "token is given as f32, and the program has i32; convert it before",
        ),
        (
            vec![token, Array { dims: &[1], bytes: &bytes[..4], ..position }],
            "position is given with shape [1], and the program has [2]; reshape or pad it",
        ),
        // As many bytes as are needed.
        (vec![token, Array { dims: &[1, 2], ..position }], "with shape [1, 2], and the program has [2]"),
        (vec![Array { bytes: &bytes[..4], ..token }, position], "token takes 8 bytes, and 4 are given"),
    ] {
        let error = refusal(&inputs).to_string();
        assert!(error.contains(message), "{error}");
    }
    let error = signature.check(&[token, position], None, &[]).unwrap_err().to_string();
    assert!(error.contains("0 outputs are given, and the program has 1: logits"), "{error}");
    let mut half = [0; 6];
    let mut output = signature.outputs[0].array_mut(&mut half);
    output.dtype = DType::F16;
    let error = signature.check(&[token, position], None, &[output]).unwrap_err().to_string();
    assert!(error.contains("logits is given as f16, and the program has f32"), "{error}");
}

#[test]
fn states_are_given_where_there_are_some() {
    let mut signature = Signature { inputs: vec![], outputs: vec![], ..signature() };
    let of_none = ModelState::new(&signature, 7u8);
    assert_eq!(signature.check(&[], Some(&of_none), &[]), Err(ArgumentError::UnexpectedState));
    signature.states.push(Feature {
        name: "state_0".to_owned(),
        dtype: DType::F16,
        dims: vec![2],
        below: None,
    });
    let missing = signature.check(&[], None, &[]).unwrap_err();
    assert!(
        missing.to_string().starts_with("the program has states (state_0), and is given none"),
        "{missing}"
    );
    assert_eq!(signature.check(&[], Some(&of_none), &[]), Err(ArgumentError::OtherState));
    let mut state = ModelState::new(&signature, 7u8);
    signature.check(&[], Some(&state), &[]).unwrap();

    let failed = |result: Result<(), RuntimeError>| match result {
        Err(RuntimeError::Arguments(error)) => error,
        other => panic!("{other:?}"),
    };
    assert_eq!(failed(state.update(|_: &mut u16| Ok(()))), ArgumentError::OtherState);
    // What is wrong with arguments changes no states.
    assert_eq!(
        failed(state.update(|_: &mut u8| Err(ArgumentError::UnexpectedState.into()))),
        ArgumentError::UnexpectedState
    );
    let mut next = || {
        state.update(|held: &mut u8| {
            *held += 1;
            Ok(*held)
        })
    };
    assert_eq!([next().unwrap(), next().unwrap()], [8, 9]);
    let refused = state.update(|_: &mut u8| Err::<(), _>(RuntimeError::Refused("no".to_owned())));
    assert_eq!(refused.unwrap_err().to_string(), "no");
    assert_eq!(failed(state.update(|_: &mut u8| Ok(()))), ArgumentError::SpoiledState);
}

#[test]
fn values_that_a_program_is_not_made_for_are_refused() {
    let signature = signature();
    let bytes = |values: [i32; 2]| values.map(i32::to_ne_bytes).concat();
    let [token, position] = &signature.inputs[..] else { unreachable!() };
    let refusal = |tokens, positions| {
        let (tokens, positions) = (bytes(tokens), bytes(positions));
        refusal(&[token.array(&tokens), position.array(&positions)])
    };
    let error = refusal([1, 299], [63, 64]);
    assert_eq!(error, ArgumentError::Value { name: "position".to_owned(), value: 64, below: 64 });
    assert_eq!(
        error.to_string(),
        "position holds 64, and the program is for 0 to 63; begin with position 0 and new states, or export the model with a larger --context"
    );
    assert_eq!(
        refusal([300, 0], [0, 1]).to_string(),
        "token holds 300, and the program is for 0 to 299; tokenize by the model's own tokenizer"
    );
    assert_eq!(
        refusal([0, 0], [-1, 0]),
        ArgumentError::Value { name: "position".to_owned(), value: -1, below: 64 }
    );
}

#[test]
fn bounds_are_of_inputs_of_integers() {
    let specs = [TensorSpec::new([2], DType::F32).unwrap(), TensorSpec::new([2], DType::I64).unwrap()];
    let program = capture(&specs, |x| Ok(vec![x[0].add(&x[1].to_dtype(DType::F32)?)?])).unwrap();
    let constants: Vec<Tensor> = program.constants();
    let bytes = cases::bytes(&constants);
    let refusal = |name: &str, below| {
        let options = CoreMlOptions { below: [(name.to_owned(), below)].into(), ..CoreMlOptions::default() };
        match Package::with_options(program.graph(), &bytes, &options) {
            Err(Error::Options(message)) => message,
            other => panic!("{other:?}"),
        }
    };
    for name in ["input_0", "input_2"] {
        assert!(refusal(name, 4).contains("no input of integers is called so"), "{}", refusal(name, 4));
    }
    assert!(refusal("input_1", 0).contains("they begin with 0"), "{}", refusal("input_1", 0));
}

#[test]
fn a_state_is_written_by_a_number_and_bytes_that_it_has() {
    let signature = |name: &str| Signature {
        states: vec![Feature { name: name.to_owned(), dtype: DType::F16, dims: vec![2, 3], below: None }],
        ..signature()
    };
    let (own, other) = (signature("state_0"), signature("state_1"));
    let state = ModelState::new(&own, ());
    assert_eq!(own.check_state(&state, 0, 12).unwrap().name, "state_0");
    assert_eq!(own.check_state(&state, 1, 12), Err(ArgumentError::NoSuchState { number: 1, count: 1 }));
    assert_eq!(other.check_state(&state, 0, 12), Err(ArgumentError::OtherState));
    let error = own.check_state(&state, 0, 24).unwrap_err().to_string();
    assert!(error.contains("state_0 takes 12 bytes, and 24 are given"), "{error}");
}
