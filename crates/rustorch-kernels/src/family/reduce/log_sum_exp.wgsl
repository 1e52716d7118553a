// The largest element so far, and the sum of exponentials relative to it.
alias State = vec2<f32>;
fn empty() -> State { return State(-3.4028235e38, 0.0); }
fn relative(s: State, shift: f32) -> f32 {
    // Equal infinities have no difference.
    if s.x == shift { return s.y; }
    return s.y * quick_exp(s.x - shift);
}
fn merge(a: State, b: State) -> State {
    let shift = select(a.x, b.x, b.x > a.x);
    return State(shift, relative(a, shift) + relative(b, shift));
}
fn take(s: State, v: f32, i: u32) -> State { return merge(s, State(v, 1.0)); }
fn finish(s: State, count: f32, correction: f32) -> f32 { return s.x + log_of(s.y); }
