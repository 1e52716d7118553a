alias Wide = f64;
fn wide(x: f64) -> Wide { return x; }
fn wide_add(a: Wide, b: Wide) -> Wide { return a + b; }
fn wide_mul(a: Wide, b: Wide) -> Wide { return a * b; }
fn narrow(a: Wide) -> f64 { return a; }
fn divide(a: f64, b: f64) -> f64 { return divide_double(a, b); }
fn root(a: f64) -> f64 { return root_double(a); }
