//! Singular values and eigenvalues, by faer: each matrix on one thread, so that results do not depend on the number of threads.

use super::number::{Number, Real};
use super::{Stack, each_range, transpose, transpose_from, tridiagonal, with_room};
use crate::ThreadPool;
use crate::kernels::strided::{self, Disjoint, unreachable_memory};
use faer::diag::DiagMut;
use faer::dyn_stack::{MemBuffer, MemStack};
use faer::linalg::evd::tridiag;
use faer::linalg::{evd, svd as faer_svd};
use faer::traits::ComplexField;
use faer::{MatMut, MatRef, Par, Spec};
use num_complex::Complex;
use rustorch_core::{Element, Fault, Linalg, MatrixDefect, View, ViewMut, dispatch_dtype};

/// What the singular values and moduli of these elements are: faer's trait has a type of this name, too.
type RealOf<T> = <T as Number>::Real;

/// Any of these decompositions.
pub(super) fn run(
    pool: &ThreadPool,
    op: Linalg,
    a: &View<'_>,
    outs: &mut [ViewMut<'_>],
) -> Result<(), Fault> {
    dispatch_dtype!(
        a.dtype(),
        [F32 F64 C64 C128],
        T => match op {
            Linalg::Svd { full, .. } => svd::<T>(pool, full, a, outs),
            Linalg::Eigh { upper, .. } => eigh::<T>(pool, upper, a, outs),
            Linalg::Eig { .. } => eig::<T>(pool, a, outs),
            _ => Err(unreachable_memory()),
        },
        _ => Err(unreachable_memory())
    )
}

fn svd<T: Spectral>(
    pool: &ThreadPool,
    full: bool,
    a: &View<'_>,
    outs: &mut [ViewMut<'_>],
) -> Result<(), Fault> {
    let stack = Stack::<T>::new(a)?;
    let [m, n] = stack.size;
    let k = m.min(n);
    let (lefts, rights) = if full { (m, n) } else { (k, k) };
    match outs {
        [values] => strided::with_slice(pool, values, |values: &mut [RealOf<T>]| {
            let values = Disjoint::new(values);
            each_svd(pool, &stack, None, |i, solver| {
                // SAFETY: the results of each matrix are written by one thread.
                unsafe { values.slice(i * k, k) }.copy_from_slice(&solver.values);
            })
        }),
        [u, values, vh] => strided::with_slice(pool, u, |u: &mut [T]| {
            strided::with_slice(pool, values, |values: &mut [RealOf<T>]| {
                strided::with_slice(pool, vh, |vh: &mut [T]| {
                    let (u, values, vh) = (Disjoint::new(u), Disjoint::new(values), Disjoint::new(vh));
                    each_svd(pool, &stack, Some([lefts, rights]), |i, solver| {
                        // SAFETY: the results of each matrix are written by one thread.
                        let (u, values, vh) = unsafe {
                            (
                                u.slice(i * m * lefts, m * lefts),
                                values.slice(i * k, k),
                                vh.slice(i * rights * n, rights * n),
                            )
                        };
                        transpose_from(&solver.left, m, [lefts, m], u, lefts, |x| x);
                        values.copy_from_slice(&solver.values);
                        // The columns of V are the rows of its transpose.
                        for (to, from) in vh.iter_mut().zip(&solver.right) {
                            *to = from.conj();
                        }
                    })
                })
            })
        }),
        _ => Err(unreachable_memory()),
    }
}

/// Calls `write` with the decomposition of each matrix; with so many left and right singular vectors, if with any.
fn each_svd<T: Spectral>(
    pool: &ThreadPool,
    stack: &Stack<'_, T>,
    vectors: Option<[usize; 2]>,
    write: impl Fn(usize, &Svd<T>) + Sync,
) -> Result<(), Fault> {
    let [m, n] = stack.size;
    each_range("linalg.svd", pool, stack, 8 * m * n * m.min(n), |range| {
        let mut solver = Svd::new([m, n], vectors);
        with_room(m * n, |a: &mut [T]| {
            range.into_iter().try_for_each(|i| {
                stack.read(i, a, n);
                solver.decompose(a).map_err(|defect| (i, defect))?;
                write(i, &solver);
                Ok(())
            })
        })
    })
}

/// Results and memory of singular value decompositions of one size.
struct Svd<T: Spectral> {
    size: [usize; 2],
    /// How many left and right singular vectors are asked for.
    vectors: Option<[usize; 2]>,
    values: Vec<RealOf<T>>,
    /// Left singular vectors, one after another.
    left: Vec<T>,
    /// Right singular vectors, one after another.
    right: Vec<T>,
    diagonal: Vec<T>,
    memory: MemBuffer,
}

impl<T: Spectral> Svd<T> {
    fn new([m, n]: [usize; 2], vectors: Option<[usize; 2]>) -> Svd<T> {
        let k = m.min(n);
        let [lefts, rights] = vectors.unwrap_or([0; 2]);
        let (of_left, of_right) = match vectors {
            None => (faer_svd::ComputeSvdVectors::No, faer_svd::ComputeSvdVectors::No),
            Some(_) => (wanted(lefts, k), wanted(rights, k)),
        };
        let memory = match k {
            0 => MemBuffer::new(faer::dyn_stack::StackReq::EMPTY),
            _ => {
                MemBuffer::new(faer_svd::svd_scratch::<T>(m, n, of_left, of_right, Par::Seq, Spec::default()))
            }
        };
        Svd {
            size: [m, n],
            vectors,
            values: vec![RealOf::<T>::from_parts(0.0, 0.0); k],
            left: vec![T::ZERO; m * lefts],
            right: vec![T::ZERO; n * rights],
            diagonal: vec![T::ZERO; k],
            memory,
        }
    }

    /// Decomposes a matrix in rows.
    fn decompose(&mut self, a: &mut [T]) -> Result<(), MatrixDefect> {
        let [m, n] = self.size;
        if m.min(n) == 0 {
            identity(&mut self.left, m);
            identity(&mut self.right, n);
            return Ok(());
        }
        let scale = scale(a)?;
        // Vectors beyond the values depend on what stands there.
        self.left.fill(T::ZERO);
        self.right.fill(T::ZERO);
        let [left, right] = match self.vectors {
            None => [None, None],
            Some([lefts, rights]) => [
                Some(MatMut::from_column_major_slice_mut(&mut self.left, m, lefts)),
                Some(MatMut::from_column_major_slice_mut(&mut self.right, n, rights)),
            ],
        };
        let done = faer_svd::svd(
            MatRef::from_row_major_slice(a, m, n),
            DiagMut::from_slice_mut(&mut self.diagonal),
            left,
            right,
            Par::Seq,
            MemStack::new(&mut self.memory),
            Spec::default(),
        );
        done.map_err(|_| MatrixDefect::NotConverged)?;
        unscaled(&self.diagonal, scale, &mut self.values)
    }
}

fn wanted(vectors: usize, k: usize) -> faer_svd::ComputeSvdVectors {
    if vectors == k { faer_svd::ComputeSvdVectors::Thin } else { faer_svd::ComputeSvdVectors::Full }
}

fn eigh<T: Spectral>(
    pool: &ThreadPool,
    upper: bool,
    a: &View<'_>,
    outs: &mut [ViewMut<'_>],
) -> Result<(), Fault> {
    let stack = Stack::<T>::new(a)?;
    let n = stack.columns();
    match outs {
        [values] => strided::with_slice(pool, values, |values: &mut [RealOf<T>]| {
            let values = Disjoint::new(values);
            each_eigvalsh(pool, &stack, upper, |i, from| {
                // SAFETY: the results of each matrix are written by one thread.
                unsafe { values.slice(i * n, n) }.copy_from_slice(from);
            })
        }),
        [values, vectors] => strided::with_slice(pool, values, |values: &mut [RealOf<T>]| {
            strided::with_slice(pool, vectors, |vectors: &mut [T]| {
                let (values, vectors) = (Disjoint::new(values), Disjoint::new(vectors));
                each_eigh(pool, &stack, upper, |i, solver| {
                    // SAFETY: the results of each matrix are written by one thread.
                    let (values, vectors) =
                        unsafe { (values.slice(i * n, n), vectors.slice(i * n * n, n * n)) };
                    values.copy_from_slice(&solver.values);
                    transpose(&solver.vectors, n, vectors, n, |x| x);
                })
            })
        }),
        _ => Err(unreachable_memory()),
    }
}

/// Calls `write` with the eigenvalues of each Hermitian matrix, of which one triangle is read.
fn each_eigvalsh<T: Spectral>(
    pool: &ThreadPool,
    stack: &Stack<'_, T>,
    upper: bool,
    write: impl Fn(usize, &[RealOf<T>]) + Sync,
) -> Result<(), Fault> {
    let n = stack.columns();
    if n == 0 {
        return Ok(());
    }
    each_range("linalg.eigh", pool, stack, 2 * n * n * n, |range| {
        // Reflections are not asked for: they are not blocked.
        let mut reflections = vec![T::ZERO; n - 1];
        let mut memory = MemBuffer::new(tridiag::tridiag_in_place_scratch::<T>(n, Par::Seq, Spec::default()));
        let (mut diagonal, mut beside) = (vec![0.0; n], vec![0.0; n - 1]);
        let mut values = vec![RealOf::<T>::from_parts(0.0, 0.0); n];
        with_room(n * n, |a: &mut [T]| {
            range.into_iter().try_for_each(|i| {
                // Rows that are read as columns are the transpose, whose eigenvalues are the same.
                read_hermitian(stack, i, Triangles { from_upper: upper, to_upper: true }, a);
                let scale = scale(a).map_err(|defect| (i, defect))?;
                tridiag::tridiag_in_place(
                    MatMut::from_column_major_slice_mut(a, n, n),
                    MatMut::from_column_major_slice_mut(&mut reflections, 1, n - 1),
                    Par::Seq,
                    MemStack::new(&mut memory),
                    Spec::default(),
                );
                for (k, to) in diagonal.iter_mut().enumerate() {
                    *to = a[k * n + k].parts().0;
                }
                for (k, to) in beside.iter_mut().enumerate() {
                    *to = a[k * n + k + 1].modulus();
                }
                tridiagonal::eigenvalues(&mut diagonal, &mut beside, RealOf::<T>::ROUNDING)
                    .and_then(|()| unscaled(&diagonal, scale, &mut values))
                    .map_err(|defect| (i, defect))?;
                write(i, &values);
                Ok(())
            })
        })
    })
}

/// Results and memory of eigendecompositions of Hermitian matrices of one size.
struct Eigh<T: Spectral> {
    values: Vec<RealOf<T>>,
    /// Eigenvectors, one after another.
    vectors: Vec<T>,
    diagonal: Vec<T>,
}

/// Calls `write` with the decomposition of each Hermitian matrix, of which one triangle is read.
fn each_eigh<T: Spectral>(
    pool: &ThreadPool,
    stack: &Stack<'_, T>,
    upper: bool,
    write: impl Fn(usize, &Eigh<T>) + Sync,
) -> Result<(), Fault> {
    let n = stack.columns();
    if n == 0 {
        return Ok(());
    }
    let asked = evd::ComputeEigenvectors::Yes;
    each_range("linalg.eigh", pool, stack, 4 * n * n * n, |range| {
        let mut solver = Eigh {
            values: vec![RealOf::<T>::from_parts(0.0, 0.0); n],
            vectors: vec![T::ZERO; n * n],
            diagonal: vec![T::ZERO; n],
        };
        let mut memory =
            MemBuffer::new(evd::self_adjoint_evd_scratch::<T>(n, asked, Par::Seq, Spec::default()));
        with_room(n * n, |a: &mut [T]| {
            range.into_iter().try_for_each(|i| {
                read_hermitian(stack, i, Triangles { from_upper: upper, to_upper: false }, a);
                let scale = scale(a).map_err(|defect| (i, defect))?;
                let Eigh { values, vectors, diagonal } = &mut solver;
                let done = evd::self_adjoint_evd(
                    MatRef::from_row_major_slice(a, n, n),
                    DiagMut::from_slice_mut(diagonal),
                    Some(MatMut::from_column_major_slice_mut(vectors, n, n)),
                    Par::Seq,
                    MemStack::new(&mut memory),
                    Spec::default(),
                );
                done.map_err(|_| (i, MatrixDefect::NotConverged))?;
                unscaled(diagonal, scale, values).map_err(|defect| (i, defect))?;
                write(i, &solver);
                Ok(())
            })
        })
    })
}

/// Which triangle of a Hermitian matrix is read, and which one of the rows in memory it becomes.
#[derive(Clone, Copy)]
struct Triangles {
    from_upper: bool,
    to_upper: bool,
}

/// Reads a triangle of a Hermitian matrix; the other one becomes zero.
fn read_hermitian<T: Number>(stack: &Stack<'_, T>, i: usize, triangles: Triangles, a: &mut [T]) {
    let n = stack.columns();
    // The adjoint of a Hermitian matrix is itself, with its triangles exchanged.
    if triangles.from_upper == triangles.to_upper {
        stack.read(i, a, n);
    } else {
        stack.read_adjoint(i, a, n);
    }
    for (row, elements) in a.chunks_exact_mut(n).enumerate() {
        elements[row] = T::from_real(elements[row].re());
        let other = if triangles.to_upper { &mut elements[..row] } else { &mut elements[row + 1..] };
        other.fill(T::ZERO);
    }
}

fn eig<T: Spectral>(pool: &ThreadPool, a: &View<'_>, outs: &mut [ViewMut<'_>]) -> Result<(), Fault>
where
    Complex<RealOf<T>>: Element,
{
    let stack = Stack::<T>::new(a)?;
    let n = stack.columns();
    match outs {
        [values] => strided::with_slice(pool, values, |values: &mut [Complex<RealOf<T>>]| {
            let values = Disjoint::new(values);
            each_eig(pool, &stack, false, |i, from, _| {
                // SAFETY: the results of each matrix are written by one thread.
                unsafe { values.slice(i * n, n) }.copy_from_slice(from);
            })
        }),
        [values, vectors] => strided::with_slice(pool, values, |values: &mut [Complex<RealOf<T>>]| {
            strided::with_slice(pool, vectors, |vectors: &mut [Complex<RealOf<T>>]| {
                let (values, vectors) = (Disjoint::new(values), Disjoint::new(vectors));
                each_eig(pool, &stack, true, |i, from, of_each| {
                    // SAFETY: the results of each matrix are written by one thread.
                    let (values, vectors) =
                        unsafe { (values.slice(i * n, n), vectors.slice(i * n * n, n * n)) };
                    values.copy_from_slice(from);
                    transpose(of_each, n, vectors, n, |x| x);
                })
            })
        }),
        _ => Err(unreachable_memory()),
    }
}

/// Calls `write` with the eigenvalues of each matrix, and its eigenvectors, one after another, if they are asked for.
fn each_eig<T: Spectral>(
    pool: &ThreadPool,
    stack: &Stack<'_, T>,
    vectors: bool,
    write: impl Fn(usize, &[Complex<RealOf<T>>], &[Complex<RealOf<T>>]) + Sync,
) -> Result<(), Fault> {
    let n = stack.columns();
    if n == 0 {
        return Ok(());
    }
    let zero = Complex { re: RealOf::<T>::from_parts(0.0, 0.0), im: RealOf::<T>::from_parts(0.0, 0.0) };
    each_range("linalg.eig", pool, stack, 10 * n * n * n, |range| {
        let mut memory = T::eig_memory(n, vectors);
        let mut values = vec![zero; n];
        let mut of_each = vec![zero; if vectors { n * n } else { 0 }];
        with_room(n * n, |a: &mut [T]| {
            range.into_iter().try_for_each(|i| {
                stack.read(i, a, n);
                let scale = scale(a).map_err(|defect| (i, defect))?;
                let asked = vectors.then_some(&mut of_each[..]);
                T::eig(a, &mut values, asked, MemStack::new(&mut memory)).map_err(|defect| (i, defect))?;
                for value in &mut values {
                    let [re, im] = [value.re, value.im].map(|x| x.parts().0 * scale);
                    if !(re.is_finite() && im.is_finite()) {
                        return Err((i, MatrixDefect::NotConverged));
                    }
                    *value = Complex {
                        re: RealOf::<T>::from_parts(re, 0.0),
                        im: RealOf::<T>::from_parts(im, 0.0),
                    };
                }
                for vector in of_each.chunks_exact_mut(n) {
                    normalize(vector).map_err(|defect| (i, defect))?;
                }
                write(i, &values, &of_each);
                Ok(())
            })
        })
    })
}

/// Makes an eigenvector's norm 1 and its largest element real, as LAPACK does.
fn normalize<R: Real>(vector: &mut [Complex<R>]) -> Result<(), MatrixDefect> {
    let parts = |z: &Complex<R>| (z.re.parts().0, z.im.parts().0);
    let size = vector.iter().map(|z| parts(z).0.abs().max(parts(z).1.abs())).fold(0.0, largest);
    if !(size.is_finite() && size > 0.0) {
        return Err(MatrixDefect::Defective);
    }
    let scaled = |z: &Complex<R>| (parts(z).0 / size, parts(z).1 / size);
    let square = |(re, im): (f64, f64)| re * re + im * im;
    let norm = vector.iter().map(|z| square(scaled(z))).sum::<f64>().sqrt();
    let mut top = 0;
    for i in 1..vector.len() {
        if square(scaled(&vector[i])) > square(scaled(&vector[top])) {
            top = i;
        }
    }
    // Times the conjugate of the largest element over its modulus.
    let (re, im) = scaled(&vector[top]);
    let modulus = re.hypot(im);
    let real = vector.iter().all(|z| parts(z).1 == 0.0);
    let (re, im) = if real { (1.0, 0.0) } else { (re / modulus, -im / modulus) };
    for (i, z) in vector.iter_mut().enumerate() {
        let (x, y) = scaled(z);
        let (x, y) = ((x * re - y * im) / norm, (x * im + y * re) / norm);
        let y = if i == top { 0.0 } else { y };
        *z = Complex { re: R::from_parts(x, 0.0), im: R::from_parts(y, 0.0) };
    }
    Ok(())
}

/// The elements whose matrices faer decomposes.
pub(super) trait Spectral: Number + ComplexField {
    /// Memory for eigendecompositions of matrices of `n` rows.
    fn eig_memory(n: usize, vectors: bool) -> MemBuffer;

    /// The eigenvalues of a matrix in rows, and eigenvectors, one after another, if they are asked for.
    fn eig(
        a: &[Self],
        values: &mut [Complex<RealOf<Self>>],
        vectors: Option<&mut [Complex<RealOf<Self>>]>,
        memory: &mut MemStack,
    ) -> Result<(), MatrixDefect>;
}

fn eig_memory<T: ComplexField>(n: usize, vectors: bool) -> MemBuffer {
    let right = if vectors { evd::ComputeEigenvectors::Yes } else { evd::ComputeEigenvectors::No };
    let none = evd::ComputeEigenvectors::No;
    MemBuffer::new(evd::evd_scratch::<T>(n, none, right, Par::Seq, Spec::default()))
}

macro_rules! spectral {
    ($($real:ident),*) => {$(
        impl Spectral for $real {
            fn eig_memory(n: usize, vectors: bool) -> MemBuffer {
                eig_memory::<$real>(n, vectors)
            }

            fn eig(
                a: &[$real],
                values: &mut [Complex<$real>],
                vectors: Option<&mut [Complex<$real>]>,
                memory: &mut MemStack,
            ) -> Result<(), MatrixDefect> {
                let n = values.len();
                let (mut re, mut im) = (vec![0.0; n], vec![0.0; n]);
                let mut packed = vec![0.0; if vectors.is_some() { n * n } else { 0 }];
                let to = vectors.is_some().then(|| MatMut::from_column_major_slice_mut(&mut packed, n, n));
                let (re_to, im_to) = (DiagMut::from_slice_mut(&mut re), DiagMut::from_slice_mut(&mut im));
                let a = MatRef::from_row_major_slice(a, n, n);
                evd::evd_real::<$real>(a, re_to, im_to, None, to, Par::Seq, memory, Spec::default())
                    .map_err(|_| MatrixDefect::NotConverged)?;
                for ((value, &re), &im) in values.iter_mut().zip(&re).zip(&im) {
                    *value = Complex { re, im };
                }
                let Some(vectors) = vectors else { return Ok(()) };
                // Of two conjugate eigenvalues, two columns are the parts of the first one's vector.
                let mut j = 0;
                while j < n {
                    let pair = im[j] != 0.0 && j + 1 < n;
                    for i in 0..n {
                        let (re, im) = (packed[j * n + i], if pair { packed[(j + 1) * n + i] } else { 0.0 });
                        vectors[j * n + i] = Complex { re, im };
                        if pair {
                            vectors[(j + 1) * n + i] = Complex { re, im: -im };
                        }
                    }
                    j += 1 + usize::from(pair);
                }
                Ok(())
            }
        }

        impl Spectral for Complex<$real> {
            fn eig_memory(n: usize, vectors: bool) -> MemBuffer {
                eig_memory::<Complex<$real>>(n, vectors)
            }

            fn eig(
                a: &[Complex<$real>],
                values: &mut [Complex<$real>],
                vectors: Option<&mut [Complex<$real>]>,
                memory: &mut MemStack,
            ) -> Result<(), MatrixDefect> {
                let n = values.len();
                let to = vectors.map(|vectors| MatMut::from_column_major_slice_mut(vectors, n, n));
                let a = MatRef::from_row_major_slice(a, n, n);
                let values = DiagMut::from_slice_mut(values);
                evd::evd_cplx::<$real>(a, values, None, to, Par::Seq, memory, Spec::default())
                    .map_err(|_| MatrixDefect::NotConverged)
            }
        }
    )*};
}

spectral!(f32, f64);

/// The larger one, or NaN if one is.
fn largest(a: f64, b: f64) -> f64 {
    if a >= b || a.is_nan() { a } else { b }
}

/// Multiplies a matrix whose elements' squares may overflow or vanish by a power of two, as LAPACK does, and returns what its values are to be
/// multiplied by: 1 mostly.
fn scale<T: Number>(a: &mut [T]) -> Result<f64, MatrixDefect> {
    let size = a.iter().map(|x| x.parts()).map(|(re, im)| largest(re.abs(), im.abs())).fold(0.0, largest);
    if !size.is_finite() {
        return Err(MatrixDefect::NotFinite);
    }
    // The dtype's exponents, half of which a square leaves.
    let most = if size_of::<RealOf<T>>() == 4 { 120 } else { 1000 };
    let exponent = if size == 0.0 { 0 } else { size.log2() as i32 };
    if exponent.abs() < most / 3 {
        return Ok(1.0);
    }
    let exponent = exponent.clamp(-most, most);
    let factor = RealOf::<T>::from_parts(2f64.powi(-exponent), 0.0);
    a.iter_mut().for_each(|x| *x = *x * T::from_real(factor));
    Ok(2f64.powi(exponent))
}

/// The real parts of values of a matrix that was scaled.
fn unscaled<T: Number, R: Real>(from: &[T], scale: f64, to: &mut [R]) -> Result<(), MatrixDefect> {
    for (to, from) in to.iter_mut().zip(from) {
        let value = from.parts().0;
        if !value.is_finite() {
            return Err(MatrixDefect::NotConverged);
        }
        *to = R::from_parts(value * scale, 0.0);
    }
    Ok(())
}

/// Writes the columns of the identity.
fn identity<T: Number>(to: &mut [T], n: usize) {
    for (i, column) in to.chunks_exact_mut(n.max(1)).enumerate() {
        column.fill(T::ZERO);
        column[i] = T::ONE;
    }
}
