alias Wide = f64;
fn wide(x: f32) -> Wide { return f64(x); }
fn wide_of(high: f32, low: f32) -> Wide { return f64(high) + f64(low); }
fn wide_add(a: Wide, b: Wide) -> Wide { return a + b; }
fn wide_mul(a: Wide, b: Wide) -> Wide { return a * b; }
fn narrow(a: Wide) -> f32 { return f32(a); }
