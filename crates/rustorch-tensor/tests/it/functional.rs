//! Derivatives of functions. The numbers are PyTorch's, printed by `tools/oracle/torch_functional.py`.

use rustorch_tensor::autograd::{GradOptions, grad, hessian, hvp, jacobian, jvp, value_and_grad, vjp};
use rustorch_tensor::{Result, Tensor};

fn leaf(x: Tensor) -> Tensor {
    x.requires_grad_(true).unwrap();
    x
}

fn close(x: &Tensor, expected: &[f64]) {
    let have = x.detach().to_vec::<f64>().unwrap();
    assert_eq!(have.len(), expected.len());
    for (have, expected) in have.iter().zip(expected) {
        assert!((have - expected).abs() <= 1e-12 * (1.0 + expected.abs()), "{have} for {expected}");
    }
}

#[test]
fn a_gradient_penalty_is_differentiated() -> Result<()> {
    let x = leaf(Tensor::new([[0.5f64, -1.0], [1.5, 2.0]])?);
    let (w, b) = (leaf(Tensor::new([[0.3f64], [-0.7]])?), leaf(Tensor::new([0.1f64])?));
    let score = x.matmul(&w)?.add(&b)?.tanh()?.sum_all()?;
    let options = GradOptions { create_graph: true, ..Default::default() };
    let of_x = grad(&[&score], &[&x], &[], options)?.remove(0).unwrap();
    let penalty = of_x.norm(2.0, 1, false)?.sub(1)?.square()?.mean_all()?;
    close(&penalty, &[0.39593824960691076]);
    let loss = score.mul(0.1)?.add(&penalty)?;
    let grads = grad(&[&loss], &[&w, &b], &[], GradOptions::default())?;
    close(grads[0].as_ref().unwrap(), &[-0.4693169716104837, -0.37548514891038764]);
    close(grads[1].as_ref().unwrap(), &[0.10064231361379333]);
    Ok(())
}

#[test]
fn a_maml_step_is_differentiated() -> Result<()> {
    let w = leaf(Tensor::new([0.2f64, -0.4])?);
    let (x, y) = (Tensor::new([[1.0f64, 2.0], [3.0, -1.0]])?, Tensor::new([0.5f64, -0.5])?);
    let (query, target) = (Tensor::new([[0.5f64, 1.0], [-1.0, 2.0]])?, Tensor::new([1.0f64, 0.0])?);
    let loss = |x: &Tensor, w: &Tensor, y: &Tensor| x.matmul(w)?.tanh()?.sub(y)?.square()?.mean_all();
    let outer = |w: &[Tensor]| {
        let (_, inner) = value_and_grad(|w| loss(&x, &w[0], &y), &[&w[0]])?;
        loss(&query, &w[0].sub(&inner[0].mul(0.1)?)?, &target)
    };
    let (value, grads) = value_and_grad(outer, &[&w.detach()])?;
    close(&value, &[0.7627889297044815]);
    close(&grads[0], &[-0.062134060324695706, -2.1562288256138142]);
    Ok(())
}

fn inputs() -> Result<[Tensor; 2]> {
    Ok([Tensor::new([0.3f64, -0.8])?, Tensor::new([1.2f64, 0.5])?])
}

fn two(x: &[Tensor]) -> Result<Vec<Tensor>> {
    Ok(vec![x[0].sin()?.mul(&x[1])?, x[0].mul(&x[1])?.sum_all()?])
}

fn one(x: &[Tensor]) -> Result<Tensor> {
    let [a, b] = x else { panic!("two inputs") };
    a.exp()?.mul(b)?.mul(b)?.sum_all()?.add(&a.select(0, 0)?.mul(&b.select(0, 1)?)?)
}

#[test]
fn jacobians_and_hessians_equal_pytorchs() -> Result<()> {
    let [a, b] = inputs()?;
    let j = jacobian(two, &[&a, &b])?;
    assert_eq!((j[0][1].dims(), j[1][0].dims()), (&[2, 2][..], &[2][..]));
    close(&j[0][0], &[1.146403786950727, 0.0, 0.0, 0.3483533546735827]);
    close(&j[0][1], &[0.29552020666133955, 0.0, 0.0, -0.7173560908995228]);
    close(&j[1][0], &[1.2, 0.5]);
    close(&j[1][1], &[0.3, -0.8]);
    let h = hessian(one, &[&a, &b])?;
    close(&h[0][0], &[1.9437966829094444, 0.0, 0.0, 0.11233224102930539]);
    close(&h[0][1], &[3.2396611381824076, 1.0, 0.0, 0.44932896411722156]);
    close(&h[1][0], &[3.2396611381824076, 0.0, 1.0, 0.44932896411722156]);
    close(&h[1][1], &[2.6997176151520064, 0.0, 0.0, 0.8986579282344431]);
    Ok(())
}

#[test]
fn products_with_jacobians_and_hessians_equal_pytorchs() -> Result<()> {
    let [a, b] = inputs()?;
    let (u, v) = (Tensor::new([0.7f64, -0.2])?, Tensor::new([-0.1f64, 0.4])?);
    let (_, along) = jvp(two, &[&a, &b], &[&u, &v])?;
    close(&along[0], &[0.7729306301993749, -0.35661310729452567]);
    close(&along[1], &[0.3899999999999999]);
    let (_, products) = vjp(two, &[&a, &b], &[&u, &Tensor::scalar(2.0)?.to_dtype(u.dtype())?])?;
    close(&products[0], &[3.202482650865509, 0.9303293290652834]);
    close(&products[1], &[0.8068641446629377, -1.4565287818200956]);
    let (_, products) = hvp(one, &[&a, &b], &[&u, &v])?;
    close(&products[0], &[1.4366915642183704, 0.15726513744102755]);
    close(&products[1], &[1.9977910352124844, 0.9695973784703329]);
    Ok(())
}

#[test]
fn linear_functions_have_zero_hessians() -> Result<()> {
    let [a, _] = inputs()?;
    close(&hessian(|x| x[0].mul(3)?.sum_all(), &[&a])?[0][0], &[0.0; 4]);
    let error = jvp(two, &[&a, &a], &[&a]).unwrap_err().to_string();
    assert!(error.contains("1 tangents were given for 2 inputs"), "{error}");
    Ok(())
}
