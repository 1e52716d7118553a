//! Tables of expressions with what they should give, run on a device as scalars and as vectors.

use super::Runner;

/// An expression of `a`, `b` and `c`, and its value from their bits.
pub(crate) struct Case {
    pub(crate) expression: &'static str,
    pub(crate) want: fn(u32, u32, u32) -> u32,
    /// For floats, of which all NaNs are alike: units in the last place by which the result may be off, and then zeros of
    /// either sign are alike too.
    pub(crate) ulps: Option<u32>,
    /// Whether the same text works on vectors of three.
    pub(crate) vectors: bool,
}

/// An exact result.
pub(crate) const fn case(expression: &'static str, want: fn(u32, u32, u32) -> u32) -> Case {
    Case { expression, want, ulps: None, vectors: true }
}

/// An exact result of an expression that only works on scalars.
pub(crate) const fn scalar(expression: &'static str, want: fn(u32, u32, u32) -> u32) -> Case {
    Case { expression, want, ulps: None, vectors: false }
}

/// A float that may be off by so many units in the last place.
pub(crate) const fn close(expression: &'static str, ulps: u32, want: fn(u32, u32, u32) -> u32) -> Case {
    Case { expression, want, ulps: Some(ulps), vectors: true }
}

/// Runs all cases on all rows of inputs, of which `ty` says the type.
pub(crate) fn check(device: &dyn Runner, ty: &str, rows: &[[u32; 3]], cases: &[Case]) {
    check_with(device, "", ty, rows, cases);
}

/// The same with declarations before the kernel.
pub(crate) fn check_with(device: &dyn Runner, prelude: &str, ty: &str, rows: &[[u32; 3]], cases: &[Case]) {
    check_on(device, prelude, ty, rows, &cases.iter().collect::<Vec<_>>(), false);
    let vectors: Vec<_> = cases.iter().filter(|case| case.vectors).collect();
    if !vectors.is_empty() {
        check_on(device, prelude, ty, rows, &vectors, true);
    }
}

fn check_on(device: &dyn Runner, prelude: &str, ty: &str, rows: &[[u32; 3]], cases: &[&Case], vectors: bool) {
    let per_case = if vectors { 3 } else { 1 };
    let width = cases.len() * per_case;
    let mut stores = String::new();
    for (index, case) in cases.iter().enumerate() {
        let expression = case.expression;
        let at = format!("id.x * {width}u + {}u", index * per_case);
        stores += &if vectors {
            format!(
                "{{ let r = bitcast<vec3<u32>>({expression});
                output[{at}] = r.x; output[{at} + 1u] = r.y; output[{at} + 2u] = r.z; }}\n"
            )
        } else {
            format!("output[{at}] = bitcast<u32>({expression});\n")
        };
    }
    let loads = if vectors {
        format!(
            "let a = bitcast<vec3<{ty}>>(row); let b = bitcast<vec3<{ty}>>(row.yzx); let c = bitcast<vec3<{ty}>>(row.zxy);"
        )
    } else {
        format!("let a = bitcast<{ty}>(row.x); let b = bitcast<{ty}>(row.y); let c = bitcast<{ty}>(row.z);")
    };
    let wgsl = format!(
        "{prelude}
        @group(0) @binding(0) var<storage, read> input: array<u32>;
        @group(0) @binding(1) var<storage, read_write> output: array<u32>;
        @compute @workgroup_size(1) fn table(@builtin(global_invocation_id) id: vec3<u32>) {{
            let row = vec3(input[id.x * 3u], input[id.x * 3u + 1u], input[id.x * 3u + 2u]);
            {loads}
            {stores}
        }}"
    );
    let mut buffers = [bytes(rows.as_flattened()), vec![0xee; rows.len() * width * 4]];
    device.run(&wgsl, [rows.len() as u32, 1, 1], &mut buffers);
    let results = words(&buffers[1]);
    let mut wrong = Vec::new();
    for (row, &[a, b, c]) in rows.iter().enumerate() {
        for (index, case) in cases.iter().enumerate() {
            let turns = [[a, b, c], [b, c, a], [c, a, b]];
            for (component, &[a, b, c]) in turns[..per_case].iter().enumerate() {
                let got = results[row * width + index * per_case + component];
                let want = (case.want)(a, b, c);
                if got != want && !case.ulps.is_some_and(|ulps| within(got, want, ulps)) {
                    let [a_, b_, c_, got_, want_] = [a, b, c, got, want].map(f32::from_bits);
                    wrong.push(format!(
                        "{} ({}): a={a:#x} b={b:#x} c={c:#x}: got {got:#x}, want {want:#x} \
                         (as f32: a={a_:e} b={b_:e} c={c_:e}: {got_:e}, {want_:e})",
                        case.expression,
                        if vectors { "vector" } else { "scalar" },
                    ));
                }
            }
        }
    }
    assert!(
        wrong.is_empty(),
        "{} of {ty} are wrong:\n{}",
        wrong.len(),
        wrong[..wrong.len().min(40)].join("\n")
    );
}

/// Whether two floats are at most so many representable values apart. All NaNs are alike.
fn within(a: u32, b: u32, ulps: u32) -> bool {
    let (x, y) = (f32::from_bits(a), f32::from_bits(b));
    if x.is_nan() || y.is_nan() {
        return x.is_nan() && y.is_nan();
    }
    if ulps == 0 {
        return a == b;
    }
    // Order of floats as integers.
    let order = |bits: u32| if bits >> 31 == 1 { -i64::from(bits & 0x7fff_ffff) } else { i64::from(bits) };
    (order(a) - order(b)).unsigned_abs() <= u64::from(ulps)
}

/// Words as bytes.
pub(crate) fn bytes(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

/// Bytes as words.
pub(crate) fn words(bytes: &[u8]) -> Vec<u32> {
    bytes.chunks_exact(4).map(|chunk| u32::from_le_bytes(chunk.try_into().unwrap())).collect()
}

/// All triples of some values, thinned out: each pair with a third that changes.
pub(crate) fn triples(values: &[u32]) -> Vec<[u32; 3]> {
    let mut rows = Vec::new();
    for (i, &a) in values.iter().enumerate() {
        for (j, &b) in values.iter().enumerate() {
            rows.push([a, b, values[(i * 5 + j * 3) % values.len()]]);
        }
    }
    rows
}
