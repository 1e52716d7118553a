// CUDA's own functions are within two units of the last place (CUDA C++ Programming Guide, "Mathematical Functions"), and its
// compiler takes no NaN for a number.
fn nan(x: f32) -> bool {
    return x != x;
}
fn exp_of(x: f32) -> f32 {
    return exp(x);
}
fn log_of(x: f32) -> f32 {
    return log(x);
}
fn log2_of(x: f32) -> f32 {
    return log2(x);
}
fn tanh_of(x: f32) -> f32 {
    return tanh(x);
}
fn sigmoid(x: f32) -> f32 {
    return divide(1.0, 1.0 + exp(-x));
}
fn silu(x: f32) -> f32 {
    return divide(x, 1.0 + exp(-x));
}
