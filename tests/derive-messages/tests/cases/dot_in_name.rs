#[derive(rustorch_nn::Module)]
struct Net {
    #[module(rename = "a.b")]
    weight: rustorch_nn::Parameter,
}

fn main() {}
