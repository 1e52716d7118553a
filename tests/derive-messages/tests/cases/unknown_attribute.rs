#[derive(rustorch_nn::Module)]
struct Net {
    #[module(name = "w")]
    weight: rustorch_nn::Parameter,
}

fn main() {}
