//! `einsum`: sums of products, named by letters for dimensions.

use crate::Tensor;
use rustorch_core::{DType, Dims, Error, Result, Shape};
use smallvec::SmallVec;
use std::borrow::Borrow;

const NAME: &str = "einsum";

/// Letters are labels 0 to 51, the dimensions of an ellipsis those after.
const LETTERS: usize = 52;
/// How many labels there may be: the bits of a mask.
pub(crate) const LABELS: usize = u128::BITS as usize;
/// Up to so many operands, every order is compared; of more, the cheapest pair is taken until so many are left.
const COMPARED: usize = 6;

type Labels = SmallVec<[u8; 8]>;

/// A tensor whose dimensions are labelled, no two alike.
pub(crate) struct Term {
    pub(crate) tensor: Tensor,
    pub(crate) labels: Labels,
}

impl Tensor {
    /// Einstein's summation, as `torch.einsum`: of each operand, the equation has a letter for each dimension; dimensions of one letter
    /// run together, and letters that the result after `->` does not have are summed over.
    ///
    /// A letter twice in an operand takes a diagonal, and `...` stands for leading dimensions that broadcast. Without `->` the result has
    /// the dimensions of `...` and the letters that appear once, in alphabetical order. Operands are multiplied in pairs, each by one
    /// matmul, in the order that takes the fewest multiplications (compared among all orders up to 6 operands).
    ///
    /// ```
    /// # use rustorch_tensor::Tensor;
    /// let a = Tensor::new([[1.0f32, 2.0], [3.0, 4.0]])?;
    /// let v = Tensor::new([1.0f32, -1.0])?;
    /// assert_eq!(Tensor::einsum("ij,j->i", &[&a, &v])?.to_vec::<f32>()?, [-1.0, -1.0]);
    /// assert_eq!(Tensor::einsum("ii", &[&a])?.item()?.to_f64(), 5.0);
    /// assert_eq!(Tensor::einsum("...ij->...ji", &[&a])?.to_vec::<f32>()?, [1.0, 3.0, 2.0, 4.0]);
    /// # Ok::<(), rustorch_tensor::Error>(())
    /// ```
    ///
    /// Integers keep their dtype in matmuls; where an operand is summed alone, the result is `I64`, as in PyTorch.
    ///
    /// # Errors
    /// If the equation does not fit the operands, or their dtypes differ.
    pub fn einsum<T: Borrow<Tensor>>(equation: &str, operands: &[T]) -> Result<Tensor> {
        let operands: SmallVec<[&Tensor; 4]> = operands.iter().map(Borrow::borrow).collect();
        let Some(first) = operands.first() else {
            return Err(Error::argument(NAME, "needs one operand at least"));
        };
        for other in &operands[1..] {
            first.expect_one_dtype(NAME, other, "convert one with to_dtype")?;
        }
        let parsed = Equation::parse(equation, &operands)?;
        let sizes = parsed.sizes(&operands)?;
        let mut terms = SmallVec::<[Term; 4]>::new();
        for (x, labels) in operands.iter().zip(&parsed.inputs) {
            terms.push(labelled(x, labels, &sizes)?);
        }
        contract_all(terms, &parsed.output, &sizes)
    }
}

/// What an equation says about operands.
struct Equation {
    inputs: SmallVec<[Labels; 4]>,
    output: Labels,
}

fn letter(label: u8) -> String {
    match label {
        0..26 => format!("`{}`", char::from(b'A' + label)),
        26..52 => format!("`{}`", char::from(b'a' + label - 26)),
        _ => "`...`".into(),
    }
}

impl Equation {
    fn parse(equation: &str, operands: &[&Tensor]) -> Result<Equation> {
        let refuse = |why: String| Error::argument(NAME, format!("\"{equation}\": {why}"));
        let text: String = equation.chars().filter(|c| !c.is_whitespace()).collect();
        let (left, right) = match text.split_once("->") {
            Some((left, right)) => (left, Some(right)),
            None => (text.as_str(), None),
        };
        let parts: Vec<&str> = left.split(',').collect();
        if parts.len() != operands.len() {
            let (named, given) = (parts.len(), operands.len());
            return Err(refuse(format!("names {named} operands, and {given} are given")));
        }
        // The letters before an ellipsis and after it, of each operand.
        let mut halves = SmallVec::<[(Labels, Option<Labels>); 4]>::new();
        for part in &parts {
            halves.push(subscripts(part).map_err(refuse)?);
        }
        let mut widest = 0;
        for ((i, x), (before, after)) in operands.iter().enumerate().zip(&halves) {
            let letters = before.len() + after.as_ref().map_or(0, |after| after.len());
            let fits = if after.is_some() { letters <= x.ndim() } else { letters == x.ndim() };
            if !fits {
                let shape = x.shape();
                return Err(refuse(format!("operand {i} has the shape {shape}, and {letters} letters")));
            }
            if after.is_some() {
                widest = widest.max(x.ndim() - letters);
            }
        }
        if widest > LABELS - LETTERS {
            return Err(refuse(format!("an ellipsis of {widest} dimensions is too long")));
        }
        let ellipsis = |len: usize| (widest - len..widest).map(|i| (LETTERS + i) as u8);
        let mut inputs = SmallVec::<[Labels; 4]>::new();
        for (x, (before, after)) in operands.iter().zip(halves) {
            let mut labels = before;
            if let Some(after) = after {
                labels.extend(ellipsis(x.ndim() - labels.len() - after.len()));
                labels.extend(after);
            }
            inputs.push(labels);
        }
        let mut counts = [0usize; LABELS];
        inputs.iter().for_each(|labels| labels.iter().for_each(|&label| counts[label as usize] += 1));
        let output = match right {
            Some(right) => {
                let (mut output, after) = subscripts(right).map_err(refuse)?;
                if let Some(after) = after {
                    output.extend(ellipsis(widest));
                    output.extend(after);
                }
                if let Some(&label) = output.iter().find(|&&l| counts[l as usize] == 0) {
                    return Err(refuse(format!("no operand has {} of the result", letter(label))));
                }
                let twice = |(i, l): &(usize, &u8)| output[..*i].contains(l);
                if let Some((_, &label)) = output.iter().enumerate().find(twice) {
                    return Err(refuse(format!("the result has {} twice", letter(label))));
                }
                output
            }
            None => {
                let once = (0..LETTERS).filter(|&l| counts[l] == 1).map(|l| l as u8);
                ellipsis(widest).chain(once).collect()
            }
        };
        Ok(Equation { inputs, output })
    }

    /// The length of each label; a length of 1 broadcasts.
    fn sizes(&self, operands: &[&Tensor]) -> Result<[usize; LABELS]> {
        let mut sizes = [1; LABELS];
        for (x, labels) in operands.iter().zip(&self.inputs) {
            for (&label, &len) in labels.iter().zip(x.dims()) {
                let size = &mut sizes[label as usize];
                if len != 1 && *size != 1 && len != *size {
                    let why = format!("{} is {size} long, and {len} in another place", letter(label));
                    return Err(Error::shape(NAME, why, operands.iter().map(|x| x.shape())));
                }
                if len != 1 {
                    *size = len;
                }
            }
        }
        Ok(sizes)
    }
}

/// The labels of a part of an equation, in two halves where it has an ellipsis.
fn subscripts(part: &str) -> Result<(Labels, Option<Labels>), String> {
    let halves: SmallVec<[&str; 3]> = part.split("...").collect();
    let labels = |half: &str| {
        half.chars()
            .map(|c| match c {
                'A'..='Z' => Ok(c as u8 - b'A'),
                'a'..='z' => Ok(c as u8 - b'a' + 26),
                _ => Err(format!("`{c}` is neither a letter nor part of `...`, `,` or `->`")),
            })
            .collect::<Result<Labels, String>>()
    };
    match *halves {
        [all] => Ok((labels(all)?, None)),
        [before, after] => Ok((labels(before)?, Some(labels(after)?))),
        _ => Err(format!("`{part}` has `...` twice")),
    }
}

/// An operand with its diagonals taken, and without dimensions that broadcast.
fn labelled(x: &Tensor, labels: &[u8], sizes: &[usize; LABELS]) -> Result<Term> {
    let mut term = Term { tensor: x.clone(), labels: labels.into() };
    let mut i = 0;
    while i < term.labels.len() {
        let label = term.labels[i];
        match term.labels[i + 1..].iter().position(|&other| other == label).map(|at| i + 1 + at) {
            Some(j) => {
                let dims = term.tensor.dims();
                if dims[i] != dims[j] {
                    let why = format!("{} is {} and {} long in one operand", letter(label), dims[i], dims[j]);
                    return Err(Error::shape(NAME, why, [x.shape()]));
                }
                // The diagonal becomes the last dimension.
                term.tensor = term.tensor.diagonal(0, i as isize, j as isize)?;
                term.labels.remove(j);
                term.labels.remove(i);
                term.labels.push(label);
            }
            None if term.tensor.dims()[i] == 1 && sizes[label as usize] != 1 => {
                term.tensor = term.tensor.squeeze(i as isize)?;
                term.labels.remove(i);
            }
            None => i += 1,
        }
    }
    Ok(term)
}

fn mask(labels: &[u8]) -> u128 {
    labels.iter().fold(0, |mask, &label| mask | 1 << label)
}

/// How many multiplications a loop over these labels has.
fn cost(labels: u128, sizes: &[usize; LABELS]) -> f64 {
    (0..LABELS).filter(|&label| labels >> label & 1 == 1).map(|label| sizes[label] as f64).product()
}

/// The sum of the products of all terms, with the labels of the output in their order.
fn contract_all(mut terms: SmallVec<[Term; 4]>, output: &[u8], sizes: &[usize; LABELS]) -> Result<Tensor> {
    while terms.len() > COMPARED {
        let masks: SmallVec<[u128; 8]> = terms.iter().map(|term| mask(&term.labels)).collect();
        let pairs = (1..terms.len()).flat_map(|j| (0..j).map(move |i| (i, j)));
        let price = |&(i, j): &(usize, usize)| cost(masks[i] | masks[j], sizes);
        let Some((i, j)) = pairs.min_by(|a, b| price(a).total_cmp(&price(b))) else { break };
        let (b, a) = (terms.remove(j), terms.remove(i));
        let others = terms.iter().fold(mask(output), |kept, term| kept | mask(&term.labels));
        let (a, b) = (a.kept(others | masks[j])?, b.kept(others | masks[i])?);
        terms.push(contract(&a, &b, others)?);
    }
    let plan = Plan::new(&terms, mask(output), sizes);
    let all = plan.run(&terms, plan.best.len() - 1)?;
    let order = |label: &u8| all.labels.iter().position(|other| other == label);
    let order: SmallVec<[isize; 6]> = output.iter().filter_map(order).map(|i| i as isize).collect();
    all.tensor.permute(order)
}

/// Of each set of terms, a bit for each, the cheapest order.
struct Plan {
    /// The cost, and one of the two sets that are multiplied last.
    best: Vec<(f64, usize)>,
    /// The labels that the product of a set keeps: those of other terms and of the output.
    kept: Vec<u128>,
}

impl Plan {
    fn new(terms: &[Term], output: u128, sizes: &[usize; LABELS]) -> Plan {
        let masks: SmallVec<[u128; 8]> = terms.iter().map(|term| mask(&term.labels)).collect();
        let count = 1usize << terms.len();
        let labels = |set: usize| {
            masks.iter().enumerate().filter(|(i, _)| set >> i & 1 == 1).fold(0, |all, (_, mask)| all | mask)
        };
        let kept: Vec<u128> =
            (0..count).map(|set| labels(set) & (output | labels((count - 1) & !set))).collect();
        let mut best = vec![(0.0, 0); count];
        for set in (1..count).filter(|set| !set.is_power_of_two()) {
            let mut cheapest = (f64::INFINITY, 0);
            // Every part of the set that has its lowest bit, so that no split comes twice.
            let mut part = (set - 1) & set;
            while part != 0 {
                let rest = set & !part;
                let total = best[part].0 + best[rest].0 + cost(kept[part] | kept[rest], sizes);
                if part & (set & set.wrapping_neg()) != 0 && (total < cheapest.0 || cheapest.1 == 0) {
                    cheapest = (total, part);
                }
                part = (part - 1) & set;
            }
            best[set] = cheapest;
        }
        Plan { best, kept }
    }

    fn run(&self, terms: &[Term], set: usize) -> Result<Term> {
        if set.is_power_of_two() {
            let term = &terms[set.trailing_zeros() as usize];
            return Term { tensor: term.tensor.clone(), labels: term.labels.clone() }.kept(self.kept[set]);
        }
        let part = self.best[set].1;
        contract(&self.run(terms, part)?, &self.run(terms, set & !part)?, self.kept[set])
    }
}

impl Term {
    /// Summed over the labels that are not to be kept.
    fn kept(self, kept: u128) -> Result<Term> {
        let is_kept = |label: &u8| kept >> label & 1 == 1;
        if self.labels.iter().all(is_kept) {
            return Ok(self);
        }
        let axes: Vec<isize> =
            (0..self.labels.len()).filter(|&i| !is_kept(&self.labels[i])).map(|i| i as isize).collect();
        let tensor = self.tensor.sum(axes, false)?;
        let mut labels = self.labels;
        labels.retain(|label| is_kept(label));
        Ok(Term { tensor, labels })
    }

    /// Groups of labels as dimensions of one tensor, each group merged into one.
    fn merged(&self, groups: &[&[u8]]) -> Result<Tensor> {
        let place = |label: &u8| self.labels.iter().position(|other| other == label).map(|i| i as isize);
        let order: SmallVec<[isize; 6]> = groups.iter().copied().flatten().filter_map(place).collect();
        let dims = groups.iter().map(|group| group.iter().map(|label| self.len(*label)).product());
        self.tensor.permute(order)?.reshape_to(Shape::new(dims.collect::<Dims>())?)
    }

    fn len(&self, label: u8) -> usize {
        self.labels.iter().zip(self.tensor.dims()).find(|(other, _)| **other == label).map_or(1, |(_, &n)| n)
    }
}

/// The product of two terms, summed over the labels of both that are not to be kept: one matmul, or one multiplication where
/// nothing is summed. Labels of one term only are to be kept.
pub(crate) fn contract(a: &Term, b: &Term, kept: u128) -> Result<Term> {
    let (mut batch, mut summed) = (Labels::new(), Labels::new());
    for &label in a.labels.iter().filter(|label| b.labels.contains(label)) {
        if kept >> label & 1 == 1 { batch.push(label) } else { summed.push(label) }
    }
    let own = |term: &Term, other: &Term| -> Labels {
        term.labels.iter().copied().filter(|label| !other.labels.contains(label)).collect()
    };
    let (rows, columns) = (own(a, b), own(b, a));
    let labels: Labels = batch.iter().chain(&rows).chain(&columns).copied().collect();
    let len = |label: &u8| if b.labels.contains(label) { b.len(*label) } else { a.len(*label) };
    let shape = Shape::new(labels.iter().map(len).collect::<Dims>())?;
    // Sums of integers have 64 bits.
    let is_wider = [a, b].iter().any(|x| x.tensor.dtype() == DType::I64);
    let widened = |term: &Term| {
        let Term { tensor, labels } = term;
        let tensor = if is_wider { tensor.to_dtype(DType::I64)? } else { tensor.clone() };
        Ok::<_, Error>(Term { tensor, labels: labels.clone() })
    };
    let (a, b) = (&widened(a)?, &widened(b)?);
    let tensor = if summed.is_empty() {
        a.merged(&[&batch, &rows, &[]])?.mul(&b.merged(&[&batch, &[], &columns])?)?
    } else if batch.is_empty() {
        a.merged(&[&rows, &summed])?.matmul(&b.merged(&[&summed, &columns])?)?
    } else {
        a.merged(&[&batch, &rows, &summed])?.matmul(&b.merged(&[&batch, &summed, &columns])?)?
    };
    Ok(Term { tensor: tensor.reshape_to(shape)?, labels })
}
