//! Feed-forward networks with one knob wrong.

use super::{Wrong, of_linear};
use rustorch_llm::arch::{Activation, Experts, Mlp, MlpGate, RouterInput, Scores};

fn other_activations(activation: Activation) -> Wrong<Activation> {
    let clamped = |alpha, limit| Activation::ClampedSwiglu { alpha, limit };
    let others = match activation {
        Activation::Silu => vec![Activation::GeluTanh, Activation::ReluSquared],
        Activation::GeluTanh => vec![Activation::Silu, Activation::ReluSquared],
        Activation::Named => vec![Activation::Silu, Activation::GeluTanh],
        Activation::ReluSquared => vec![Activation::Silu, Activation::GeluTanh],
        Activation::ClampedSwiglu { alpha, limit } => {
            vec![Activation::Silu, clamped(2.0 * alpha, limit), clamped(alpha, limit / 8.0)]
        }
    };
    let others = others.into_iter().enumerate();
    others.map(|(i, other)| (format!("activation: {activation:?}, {i}"), other)).collect()
}

pub(super) fn of_mlp(mlp: Mlp) -> Wrong<Mlp> {
    let Mlp { gate, up, down, activation, sparsity, shared, sigmoid_gate, scaled } = mlp;
    let mut all: Wrong<Mlp> = Vec::new();
    match gate {
        MlpGate::None => {}
        MlpGate::Separate(linear) => {
            all.push(("gate: none".into(), Mlp { gate: MlpGate::None, ..mlp }));
            let gates = of_linear(linear).into_iter();
            all.extend(gates.map(|(k, linear)| (k, Mlp { gate: MlpGate::Separate(linear), ..mlp })));
        }
        MlpGate::InUp => all.push(("gate: not in up".into(), Mlp { gate: MlpGate::None, ..mlp })),
    }
    all.extend(of_linear(up).into_iter().map(|(k, up)| (k, Mlp { up, ..mlp })));
    all.extend(of_linear(down).into_iter().map(|(k, down)| (k, Mlp { down, ..mlp })));
    let others = other_activations(activation).into_iter();
    all.extend(others.map(|(k, activation)| (k, Mlp { activation, ..mlp })));
    let mut set = |knob: &str, wrong: Mlp| all.push((knob.to_owned(), wrong));
    match sparsity {
        Some(deviations) => {
            set("sparsity: none", Mlp { sparsity: None, ..mlp });
            set("sparsity: another", Mlp { sparsity: Some(deviations + 0.5), ..mlp });
        }
        None => set("sparsity: some", Mlp { sparsity: Some(1.0), ..mlp }),
    }
    set(&format!("shared: {shared}"), Mlp { shared: !shared, ..mlp });
    if sigmoid_gate.is_some() {
        set("sigmoid_gate: none", Mlp { sigmoid_gate: None, ..mlp });
    }
    set(&format!("scaled: {scaled}"), Mlp { scaled: !scaled, ..mlp });
    all
}

pub(super) fn of_experts(experts: Experts) -> Wrong<Experts> {
    let Experts {
        router,
        router_input,
        scores,
        normalize,
        by_metadata,
        selection_bias,
        weigh_inputs,
        latent,
        gate,
        up,
        fused,
        down,
        activation,
    } = experts;
    let mut all: Wrong<Experts> = Vec::new();
    all.extend(of_linear(router).into_iter().map(|(k, router)| (k, Experts { router, ..experts })));
    all.extend(of_linear(up).into_iter().map(|(k, up)| (k, Experts { up, ..experts })));
    all.extend(of_linear(fused).into_iter().map(|(k, fused)| (k, Experts { fused, ..experts })));
    all.extend(of_linear(down).into_iter().map(|(k, down)| (k, Experts { down, ..experts })));
    let others = other_activations(activation).into_iter();
    all.extend(others.map(|(k, activation)| (k, Experts { activation, ..experts })));
    let mut set = |knob: &str, wrong: Experts| all.push((knob.to_owned(), wrong));
    if let Some(linear) = gate {
        set("gate: none", Experts { gate: None, ..experts });
        for (knob, gate) in of_linear(linear) {
            set(&knob, Experts { gate: Some(gate), ..experts });
        }
    }
    match router_input {
        RouterInput::Branch => {}
        RouterInput::NormedResidual { .. } => {
            set("router_input: the branch", Experts { router_input: RouterInput::Branch, ..experts });
        }
    }
    for other in [Scores::Softmax, Scores::SoftmaxOfChosen, Scores::Sigmoid] {
        // Scores that sum to 1 after the choice are those of a softmax of the chosen.
        let alike = normalize && scores != Scores::Sigmoid && other != Scores::Sigmoid;
        if other != scores && !alike {
            set(&format!("scores: {scores:?} as {other:?}"), Experts { scores: other, ..experts });
        }
    }
    if scores != Scores::SoftmaxOfChosen {
        set(&format!("normalize: {normalize}"), Experts { normalize: !normalize, ..experts });
    }
    set(&format!("by_metadata: {by_metadata}"), Experts { by_metadata: !by_metadata, ..experts });
    if selection_bias.is_some() {
        set("selection_bias: none", Experts { selection_bias: None, ..experts });
    }
    set(&format!("weigh_inputs: {weigh_inputs}"), Experts { weigh_inputs: !weigh_inputs, ..experts });
    if latent.is_some() {
        set("latent: none", Experts { latent: None, ..experts });
    }
    all
}
