//! `MLMultiArray` over memory of ours, and the copying of results that Core ML computed elsewhere.

use super::refused;
use crate::runtime::{Feature, RuntimeError};
use objc2::AnyThread;
use objc2::rc::Retained;
use objc2_core_ml::{MLMultiArray, MLMultiArrayDataType};
use objc2_foundation::{NSArray, NSNumber};
use rustorch_core::DType;
use std::ffi::c_void;
use std::ptr::{self, NonNull};

/// Memory of whoever waits for a prediction.
#[derive(Clone, Copy)]
pub(super) struct Memory {
    address: NonNull<u8>,
    bytes: usize,
}

// SAFETY: it refers to bytes that the thread which made it has borrowed, and leaves alone until it is answered.
unsafe impl Send for Memory {}

impl Memory {
    pub(super) fn read(bytes: &[u8]) -> Memory {
        Memory { address: NonNull::from(bytes).cast(), bytes: bytes.len() }
    }

    pub(super) fn bytes(self) -> usize {
        self.bytes
    }

    pub(super) fn written(bytes: &mut [u8]) -> Memory {
        Memory { address: NonNull::from(&mut *bytes).cast(), bytes: bytes.len() }
    }
}

fn data_type(dtype: DType) -> MLMultiArrayDataType {
    match dtype {
        DType::F16 => MLMultiArrayDataType::Float16,
        DType::F32 => MLMultiArrayDataType::Float32,
        // Features have no other.
        _ => MLMultiArrayDataType::Int32,
    }
}

fn numbers(values: &[usize]) -> Retained<NSArray<NSNumber>> {
    let values: Vec<_> = values.iter().map(|&value| NSNumber::new_usize(value)).collect();
    NSArray::from_retained_slice(&values)
}

fn sizes(numbers: &NSArray<NSNumber>) -> Vec<usize> {
    numbers.iter().map(|number| number.as_usize()).collect()
}

fn contiguous(dims: &[usize]) -> Vec<usize> {
    let mut strides = vec![1; dims.len()];
    for axis in (1..dims.len()).rev() {
        strides[axis - 1] = strides[axis] * dims[axis];
    }
    strides
}

/// An array of this memory, which has the feature's bytes.
pub(super) fn array_over(feature: &Feature, memory: Memory) -> Result<Retained<MLMultiArray>, RuntimeError> {
    // SAFETY: the memory has as many bytes as the shape takes, and outlives the prediction, behind which nothing keeps the array. Arrays of
    // inputs are only read.
    unsafe {
        MLMultiArray::initWithDataPointer_shape_dataType_strides_deallocator_error(
            MLMultiArray::alloc(),
            memory.address.cast::<c_void>(),
            &numbers(&feature.dims),
            data_type(feature.dtype),
            &numbers(&contiguous(&feature.dims)),
            None,
        )
        .map_err(refused)
    }
}

/// Copies a result to its place, unless it is there: whether it is.
pub(super) fn copy_out(
    feature: &Feature,
    result: &MLMultiArray,
    place: Memory,
) -> Result<bool, RuntimeError> {
    let there = Elements::of(feature, result)?;
    let is_in_place = there.address == place.address;
    if !is_in_place {
        // SAFETY: the place is exclusive, and does not overlap an array of Core ML's own.
        there.runs(place, |array, place, bytes| unsafe {
            ptr::copy_nonoverlapping(array, place, bytes);
        });
    }
    Ok(is_in_place)
}

/// Copies bytes to an array of Core ML's own.
pub(super) fn copy_in(feature: &Feature, array: &MLMultiArray, given: Memory) -> Result<(), RuntimeError> {
    // SAFETY: nobody else has the array meanwhile, and what is given, which is only read, does not overlap it.
    Elements::of(feature, array)?.runs(given, |array, given, bytes| unsafe {
        ptr::copy_nonoverlapping(given, array, bytes);
    });
    Ok(())
}

/// The elements of an array of Core ML's own, which may have gaps between rows.
struct Elements {
    address: NonNull<u8>,
    dims: Vec<usize>,
    strides: Vec<usize>,
    size: usize,
}

impl Elements {
    fn of(feature: &Feature, array: &MLMultiArray) -> Result<Elements, RuntimeError> {
        // SAFETY: getters.
        let (has, dims, strides) =
            unsafe { (array.dataType(), sizes(&array.shape()), sizes(&array.strides())) };
        if has != data_type(feature.dtype) || dims != feature.dims || strides.len() != dims.len() {
            return Err(RuntimeError::Refused(format!(
                "{} is {:?} of type {}, not {:?} of {:?}",
                feature.name, dims, has.0, feature.dims, feature.dtype
            )));
        }
        #[allow(deprecated, reason = "the address is compared, which the calls in its place do not promise")]
        // SAFETY: a getter; the array is alive.
        let address = unsafe { array.dataPointer() }.cast::<u8>();
        Ok(Elements { address, dims, strides, size: feature.dtype.block_bytes() })
    }

    /// Calls `copy` with the addresses of each run of elements, in the array and in contiguous memory of the feature's bytes, and its bytes.
    fn runs(&self, memory: Memory, copy: impl Fn(*mut u8, *mut u8, usize)) {
        let Elements { address, dims, strides, size } = self;
        let row = dims.last().copied().unwrap_or(1);
        let row_stride = strides.last().copied().unwrap_or(1);
        let mut index = vec![0usize; dims.len().saturating_sub(1)];
        let mut at = 0;
        while at + row * size <= memory.bytes {
            let from: usize = index.iter().zip(strides).map(|(i, stride)| i * stride).sum();
            // SAFETY: indices are inside the array's shape, whose strides these are; the memory has as many bytes as the shape takes.
            let (there, here) =
                unsafe { (address.as_ptr().add(from * size), memory.address.as_ptr().add(at)) };
            match row_stride {
                1 => copy(there, here, row * size),
                _ => (0..row).for_each(|i| {
                    // SAFETY: as above.
                    let (there, here) = unsafe { (there.add(i * row_stride * size), here.add(i * size)) };
                    copy(there, here, *size);
                }),
            }
            at += row * size;
            // The next row, the last index first.
            let next = (0..index.len()).rev().find(|&axis| {
                index[axis] += 1;
                let is_inside = index[axis] < dims[axis];
                if !is_inside {
                    index[axis] = 0;
                }
                is_inside
            });
            if next.is_none() {
                break;
            }
        }
    }
}
