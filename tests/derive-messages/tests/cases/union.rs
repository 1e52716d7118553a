#[derive(rustorch_nn::Module)]
union Net {
    a: u8,
    b: u8,
}

fn main() {}
