//! Clocks, sequences and metrics of profiles.

use rustorch_core::profile::{
    ClockMap, GpuBenchmarkMetrics, SequenceScope, current_sequence, host_ns, host_ns_at,
};
use std::time::Instant;

#[test]
fn sequences_nest_and_stay_on_their_thread() {
    assert_eq!(current_sequence(), 0);
    let outer = SequenceScope::enter(7);
    {
        let _inner = SequenceScope::enter(8);
        assert_eq!(current_sequence(), 8);
        assert_eq!(std::thread::spawn(current_sequence).join().ok(), Some(0));
    }
    assert_eq!(current_sequence(), 7);
    drop(outer);
    assert_eq!(current_sequence(), 0);
}

#[test]
fn both_ways_of_reading_the_clock_agree() {
    let before = host_ns();
    let between = host_ns_at(Instant::now());
    assert!(before <= between && between <= host_ns());
}

#[test]
fn clocks_are_mapped_exactly_where_values_are_large() {
    let ticks = u64::MAX - 1000;
    let map = ClockMap::new(ticks, 5_000, 2.5);
    assert_eq!(map.host_ns(ticks), 5_000);
    assert_eq!(map.host_ns(ticks + 100), 5_250);
    assert_eq!(map.host_ns(ticks - 100), 4_750);
    assert_eq!(map.host_ns(0), 0);
    let map = ClockMap::between((1_000, 50_000), (3_000, 52_200)).expect("it advanced");
    assert_eq!(map.host_ns(2_000), 51_100);
    assert_eq!(ClockMap::between((1_000, 50_000), (1_000, 52_200)), None);
}

#[test]
fn metrics_are_filled_in_and_memory_comes_from_one_source() {
    let own = GpuBenchmarkMetrics { memory_total: Some(8), power_watts: Some(1.0), ..Default::default() };
    let system = GpuBenchmarkMetrics {
        memory_used: Some(3),
        memory_total: Some(9),
        power_watts: Some(2.0),
        ..Default::default()
    };
    let both = own.or(system);
    assert_eq!((both.memory_used, both.memory_total, both.power_watts), (Some(3), Some(9), Some(1.0)));
    assert_eq!(system.or(own).memory_total, Some(9));
    assert_eq!(own.or(GpuBenchmarkMetrics::default()), own);
}
