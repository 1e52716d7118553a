//! Numbers of 192 bits behind the point, for functions whose terms cancel further than pairs of floats reach.

/// How many words a number has.
const WORDS: usize = 3;

/// A number from 0 to 1, without 1; its last word is the first one.
#[derive(Clone, Copy)]
pub(super) struct Fraction([u64; WORDS]);

impl Fraction {
    const ZERO: Fraction = Fraction([0; WORDS]);
    pub(super) const LN_2: Fraction =
        Fraction([0x40F3_4326_7298_B62D, 0xC9E3_B398_03F2_F6AF, 0xB172_17F7_D1CF_79AB]);

    /// 1/2!, 1/3!, …: what is left out of the series of [`one_minus_exp`](Self::one_minus_exp), for arguments up to 2⁻⁷, is below the
    /// last bits.
    const COEFFICIENTS: [Fraction; 20] = {
        let mut all = [Fraction::ZERO; 20];
        let mut words = [0, 0, 1 << 63];
        let mut k = 0;
        while k < all.len() {
            all[k] = Fraction(words);
            let (mut i, mut rest) = (WORDS, 0);
            while i > 0 {
                i -= 1;
                let above = rest << 64 | words[i] as u128;
                words[i] = (above / (k as u128 + 3)) as u64;
                rest = above % (k as u128 + 3);
            }
            k += 1;
        }
        all
    };

    /// x·2ⁿ without its whole part, for x from a half to 1 and n below 64.
    pub(super) fn of(x: f64, n: i32) -> Fraction {
        // The first 53 bits are all that there are.
        let number = Fraction([0, 0, (x * 18_446_744_073_709_551_616.0) as u64]);
        if n > 0 { number.fraction_of_times(1 << n) } else { number.halved(-n) }
    }

    /// (1 − e⁻ˣ)·2ᵠ where x is this number times 2⁻ᵠ, and q is −1 at least.
    pub(super) fn one_minus_exp(self, q: i32) -> Fraction {
        let halvings = (7 - q).max(0);
        let x = self.halved(q + halvings);
        let series = Self::COEFFICIENTS.iter().rev().fold(Self::ZERO, |series, c| c.minus(x.times(series)).0);
        let mut y = self.minus(self.times(x.times(series))).0;
        // 1 − e⁻²ˣ = 2y − y², where y is 1 − e⁻ˣ.
        for halving in (1..=halvings).rev() {
            y = y.minus(y.times(y.halved(q + halving + 1))).0;
        }
        y
    }

    /// 1 less this number, which is not 0.
    pub(super) fn complement(self) -> Fraction {
        Self::ZERO.minus(self).0
    }

    /// Rounded down.
    fn times(self, other: Fraction) -> Fraction {
        let mut words = [0; 2 * WORDS];
        for i in 0..WORDS {
            let mut carry = 0;
            for j in 0..WORDS {
                let sum = u128::from(self.0[i]) * u128::from(other.0[j]) + u128::from(words[i + j]) + carry;
                (words[i + j], carry) = (sum as u64, sum >> 64);
            }
            words[i + WORDS] = carry as u64;
        }
        Fraction([words[3], words[4], words[5]])
    }

    /// The difference, by 1 too much if it is negative, and whether it is.
    pub(super) fn minus(self, other: Fraction) -> (Fraction, bool) {
        let (mut words, mut borrow) = ([0; WORDS], false);
        for (i, word) in words.iter_mut().enumerate() {
            let (difference, is_below) = self.0[i].overflowing_sub(other.0[i]);
            let (difference, is_below_by_borrow) = difference.overflowing_sub(u64::from(borrow));
            (*word, borrow) = (difference, is_below | is_below_by_borrow);
        }
        (Fraction(words), borrow)
    }

    /// Divided by 2ⁿ, rounded down; n is not negative.
    pub(super) fn halved(self, n: i32) -> Fraction {
        let (words, bits) = (n as usize / 64, n as u32 % 64);
        let word = |i: usize| self.0.get(i).copied().unwrap_or(0);
        Fraction(std::array::from_fn(|i| {
            let above = if bits == 0 { 0 } else { word(i + words + 1) << (64 - bits) };
            word(i + words) >> bits | above
        }))
    }

    /// What is behind the point of this number times n.
    pub(super) fn fraction_of_times(self, n: u64) -> Fraction {
        let mut carry = 0;
        Fraction(self.0.map(|word| {
            let product = u128::from(word) * u128::from(n) + carry;
            carry = product >> 64;
            product as u64
        }))
    }

    /// Its first 64 bits that are not zero, and the power of 2 that these are to be multiplied with.
    pub(super) fn first_bits(self) -> (u64, i32) {
        let Some(i) = (0..WORDS).rev().find(|&i| self.0[i] != 0) else { return (0, 0) };
        let zeros = self.0[i].leading_zeros();
        let below = if i == 0 || zeros == 0 { 0 } else { self.0[i - 1] >> (64 - zeros) };
        (self.0[i] << zeros | below, (i as i32 - WORDS as i32) * 64 - zeros as i32)
    }
}
