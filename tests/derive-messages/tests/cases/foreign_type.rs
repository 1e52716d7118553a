#[derive(rustorch_nn::Module)]
struct Net {
    weight: rustorch_nn::Parameter,
    started: std::time::Instant,
}

fn main() {}
