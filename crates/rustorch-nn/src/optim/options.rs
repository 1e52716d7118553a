//! Options of optimizers: structs whose fields are also numbers by name, which schedules set and checkpoints keep.

/// The options of an optimizer as numbers by name.
pub trait Options: Clone + std::fmt::Debug + Default + Send + Sync + 'static {
    /// Every option with its number: switches are 0 or 1, pairs have names such as `betas.0`.
    fn numbers(&self) -> Vec<(String, f64)>;

    /// Sets the option of a name; whether there is one.
    fn set_number(&mut self, name: &str, number: f64) -> bool;

    /// The option of a name.
    fn number(&self, name: &str) -> Option<f64> {
        self.numbers().into_iter().find(|(has, _)| has == name).map(|(_, number)| number)
    }
}

/// A field of [`Options`].
pub trait OptionValue {
    /// Its numbers, each with the rest of its name.
    fn numbers(&self) -> Vec<(String, f64)>;

    /// Sets the number with this rest of its name; whether there is one.
    fn set_number(&mut self, rest: &str, number: f64) -> bool;
}

impl OptionValue for f64 {
    fn numbers(&self) -> Vec<(String, f64)> {
        vec![(String::new(), *self)]
    }

    fn set_number(&mut self, rest: &str, number: f64) -> bool {
        *self = if rest.is_empty() { number } else { *self };
        rest.is_empty()
    }
}

impl OptionValue for bool {
    fn numbers(&self) -> Vec<(String, f64)> {
        vec![(String::new(), f64::from(u8::from(*self)))]
    }

    fn set_number(&mut self, rest: &str, number: f64) -> bool {
        *self = if rest.is_empty() { number != 0.0 } else { *self };
        rest.is_empty()
    }
}

impl OptionValue for usize {
    fn numbers(&self) -> Vec<(String, f64)> {
        vec![(String::new(), *self as f64)]
    }

    fn set_number(&mut self, rest: &str, number: f64) -> bool {
        let fits = rest.is_empty() && number >= 0.0 && number.fract() == 0.0;
        *self = if fits { number as usize } else { *self };
        fits
    }
}

/// The number −1 is `None`.
impl<V: OptionValue + Default> OptionValue for Option<V> {
    fn numbers(&self) -> Vec<(String, f64)> {
        self.as_ref().map_or_else(|| vec![(String::new(), -1.0)], V::numbers)
    }

    fn set_number(&mut self, rest: &str, number: f64) -> bool {
        if rest.is_empty() && number == -1.0 {
            *self = None;
            return true;
        }
        let mut value = V::default();
        let fits = value.set_number(rest, number);
        if fits {
            *self = Some(value);
        }
        fits
    }
}

impl<A: OptionValue, B: OptionValue> OptionValue for (A, B) {
    fn numbers(&self) -> Vec<(String, f64)> {
        let first = self.0.numbers().into_iter().map(|(rest, number)| (format!(".0{rest}"), number));
        let second = self.1.numbers().into_iter().map(|(rest, number)| (format!(".1{rest}"), number));
        first.chain(second).collect()
    }

    fn set_number(&mut self, rest: &str, number: f64) -> bool {
        match (rest.strip_prefix(".0"), rest.strip_prefix(".1")) {
            (Some(rest), _) => self.0.set_number(rest, number),
            (_, Some(rest)) => self.1.set_number(rest, number),
            _ => false,
        }
    }
}

impl OptionValue for (f64, f64, f64) {
    fn numbers(&self) -> Vec<(String, f64)> {
        vec![(".0".to_owned(), self.0), (".1".to_owned(), self.1), (".2".to_owned(), self.2)]
    }

    fn set_number(&mut self, rest: &str, number: f64) -> bool {
        match rest {
            ".0" => self.0 = number,
            ".1" => self.1 = number,
            ".2" => self.2 = number,
            _ => return false,
        }
        true
    }
}

/// Declares a struct of options with its defaults.
macro_rules! options {
    (
        $(#[$meta:meta])*
        $name:ident { $($(#[$field_meta:meta])* $field:ident: $ty:ty = $default:expr,)+ }
    ) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq)]
        pub struct $name {
            $($(#[$field_meta])* pub $field: $ty,)+
        }

        impl Default for $name {
            fn default() -> $name {
                $name { $($field: $default,)+ }
            }
        }

        impl $crate::optim::Options for $name {
            fn numbers(&self) -> Vec<(String, f64)> {
                let mut all = Vec::new();
                $(
                    let numbers = $crate::optim::OptionValue::numbers(&self.$field).into_iter();
                    all.extend(numbers.map(|(rest, number)| (format!("{}{rest}", stringify!($field)), number)));
                )+
                all
            }

            fn set_number(&mut self, name: &str, number: f64) -> bool {
                $(
                    if let Some(rest) = name.strip_prefix(stringify!($field))
                        && $crate::optim::OptionValue::set_number(&mut self.$field, rest, number)
                    {
                        return true;
                    }
                )+
                false
            }
        }
    };
}

pub(super) use options;
