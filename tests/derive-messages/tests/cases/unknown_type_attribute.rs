#[derive(rustorch_nn::Module)]
#[module(name = "Net")]
struct Net {
    weight: rustorch_nn::Parameter,
}

fn main() {}
