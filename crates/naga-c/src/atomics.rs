//! Atomic operations.

use naga::proc::NameKey;
use naga::{AtomicFunction, Expression, Handle, Scalar, TypeInner};

use crate::Error;
use crate::dialect::{Atomic, atomic_name};
use crate::expr::{Body, bare};

impl Body<'_, '_> {
    pub(crate) fn atomic(
        &mut self,
        pointer: Handle<Expression>,
        fun: &AtomicFunction,
        value: Handle<Expression>,
        result: Option<Handle<Expression>>,
    ) -> Result<(), Error> {
        let TypeInner::Atomic(scalar) = self.pointee_type(pointer)? else {
            return Err(Error::Inconsistent("an atomic operation on something that is no atomic"));
        };
        let space = self.space(pointer)?;
        let address = self.address(pointer)?;
        let value = self.value(value)?;
        let compare = match *fun {
            AtomicFunction::Exchange { compare: Some(compare) } => Some(self.value(compare)?),
            _ => None,
        };
        let ty = self.program.scalar(scalar)?;
        if scalar == Scalar::F32
            && self.program.target.native_vectors()
            && matches!(fun, AtomicFunction::Add | AtomicFunction::Subtract)
        {
            let value = if *fun == AtomicFunction::Add { value } else { format!("-({value})") };
            let call = self.float_add(&address, bare(&value), space)?;
            return self.finish(result, &call);
        }
        let atomic = Atomic {
            fun: *fun,
            scalar,
            pointer: &address,
            value: &value,
            compare: compare.as_deref().unwrap_or(""),
        };
        let text =
            self.program.target.atomic(&atomic, &mut self.program.needs).ok_or(Error::UnsupportedAtomic {
                dialect: self.program.target.name(),
                operation: atomic_name(*fun),
                scalar: crate::scalars::name(scalar)?,
            })?;
        let (Some(compare), Some(result)) = (compare, result) else {
            return self.finish(result, &text);
        };
        // The result is a struct of the old value and whether it was the expected one.
        let struct_type =
            self.info[result].ty.handle().ok_or(Error::Inconsistent("a result of an unnamed type"))?;
        let struct_name = self.program.memory_type(struct_type)?;
        let [old, exchanged] =
            [0, 1].map(|index| self.program.names[&NameKey::StructMember(struct_type, index)].clone());
        let name = format!("nc_exchanged_{ty}");
        let body = format!(
            "{struct_name} r;\n    r.{old} = old;\n    r.{exchanged} = old == compare;\n    return r;"
        );
        self.program.helper(&name, &format!("{ty} old, {ty} compare"), &struct_name, &body);
        self.bake(result, &format!("{name}({text}, {compare})"))
    }

    fn finish(&mut self, result: Option<Handle<Expression>>, text: &str) -> Result<(), Error> {
        match result {
            Some(result) => self.bake(result, text),
            None => {
                self.line(&format!("{text};"));
                Ok(())
            }
        }
    }

    /// OpenCL has no sums of floats: exchange until nobody came between.
    fn float_add(&mut self, address: &str, value: &str, space: naga::AddressSpace) -> Result<String, Error> {
        self.program.scalar(Scalar::U32)?;
        let qualifier = self.program.target.space(space);
        let name = if space == naga::AddressSpace::WorkGroup {
            "nc_atomic_add_local"
        } else {
            "nc_atomic_add_global"
        };
        let body = format!(
            "volatile {qualifier}u32* bits = (volatile {qualifier}u32*)place;\n    \
             u32 old = *bits;\n    \
             for (;;) {{\n        \
             u32 seen = atomic_cmpxchg(bits, old, as_uint(as_float(old) + value));\n        \
             if (seen == old) return as_float(old);\n        \
             old = seen;\n    }}"
        );
        self.program.helper(name, &format!("{qualifier}f32* place, f32 value"), "f32", &body);
        Ok(format!("{name}({address}, {value})"))
    }
}
