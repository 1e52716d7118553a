//! What templates expect from Python beyond Jinja itself: `json.dumps` and `strftime`.

use minijinja::value::{Kwargs, Value, ValueKind};
use minijinja::{Error, ErrorKind};
use std::fmt::Write;
use std::time::{SystemTime, UNIX_EPOCH};

/// The `tojson` filter as Hugging Face defines it: `json.dumps(value, ensure_ascii=False)`, with `indent`, nothing
/// escaped for HTML.
pub(super) fn tojson(value: &Value, options: Kwargs) -> Result<Value, Error> {
    let indent: Option<usize> = options.get("indent")?;
    // Python's other options have no effect on what chat templates pass.
    for option in ["ensure_ascii", "separators", "sort_keys"] {
        let _: Option<Value> = options.get(option)?;
    }
    options.assert_all_used()?;
    let mut out = String::new();
    write_json(value, indent, 0, &mut out)?;
    Ok(Value::from(out))
}

/// The `length` filter; in Python's Jinja what is undefined has length 0.
pub(super) fn length(value: &Value) -> Result<usize, Error> {
    if value.is_undefined() { Ok(0) } else { minijinja::filters::length(value) }
}

fn write_json(value: &Value, indent: Option<usize>, depth: usize, out: &mut String) -> Result<(), Error> {
    match value.kind() {
        ValueKind::Undefined | ValueKind::None => out.push_str("null"),
        ValueKind::Bool => out.push_str(if value.is_true() { "true" } else { "false" }),
        ValueKind::Number => {
            let _ = write!(out, "{value}");
        }
        ValueKind::String => write_string(value.as_str().unwrap_or_default(), out),
        ValueKind::Map => {
            let keys: Vec<Value> = value.try_iter()?.collect();
            write_items(('{', '}'), &keys, indent, depth, out, |key, out| {
                write_string(&key.to_string(), out);
                out.push_str(": ");
                write_json(&value.get_item(key)?, indent, depth + 1, out)
            })?;
        }
        ValueKind::Seq | ValueKind::Iterable => {
            let items: Vec<Value> = value.try_iter()?.collect();
            write_items(('[', ']'), &items, indent, depth, out, |item, out| {
                write_json(item, indent, depth + 1, out)
            })?;
        }
        kind => {
            return Err(Error::new(ErrorKind::BadSerialization, format!("{kind} has no form in JSON")));
        }
    }
    Ok(())
}

fn write_items(
    (open, close): (char, char),
    items: &[Value],
    indent: Option<usize>,
    depth: usize,
    out: &mut String,
    mut write_item: impl FnMut(&Value, &mut String) -> Result<(), Error>,
) -> Result<(), Error> {
    // Deep nesting would overflow the stack.
    if depth > 128 {
        return Err(Error::new(ErrorKind::BadSerialization, "nested deeper than 128 levels"));
    }
    let line = |depth: usize, out: &mut String| {
        if let Some(width) = indent {
            out.push('\n');
            out.extend(std::iter::repeat_n(' ', width * depth));
        }
    };
    out.push(open);
    for (index, item) in items.iter().enumerate() {
        if index > 0 {
            out.push_str(if indent.is_some() { "," } else { ", " });
        }
        line(depth + 1, out);
        write_item(item, out)?;
    }
    if !items.is_empty() {
        line(depth, out);
    }
    out.push(close);
    Ok(())
}

fn write_string(text: &str, out: &mut String) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{8}' => out.push_str("\\b"),
            '\u{C}' => out.push_str("\\f"),
            c if c < ' ' => {
                let _ = write!(out, "\\u{:04x}", c as u32);
            }
            c => out.push(c),
        }
    }
    out.push('"');
}

const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];
const DAYS: [&str; 7] = ["Thursday", "Friday", "Saturday", "Sunday", "Monday", "Tuesday", "Wednesday"];

/// `strftime` of a time in UTC: `%Y %m %d %b %B %y %j %a %A %H %I %M %S %p %%`, and `%-d`-like forms without
/// leading zeros. Anything else stays as it is written.
pub(super) fn strftime(format: &str, time: SystemTime) -> String {
    let seconds = time.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let (days, seconds) = (seconds / 86_400, seconds % 86_400);
    let (year, month, day) = civil_date(days);
    let (hour, minute, second) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    let month_name = MONTHS[month as usize - 1];
    let day_name = DAYS[(days % 7) as usize];
    let mut out = String::new();
    let mut chars = format.chars().peekable();
    while let Some(c) = chars.next() {
        if c != '%' {
            out.push(c);
            continue;
        }
        let plain = chars.next_if_eq(&'-').is_some();
        let mut number = |value: u64, width: usize| {
            let width = if plain { 0 } else { width };
            let _ = write!(out, "{value:0width$}");
        };
        match chars.next() {
            Some('Y') => number(year, 4),
            Some('y') => number(year % 100, 2),
            Some('m') => number(month, 2),
            Some('d') => number(day, 2),
            Some('H') => number(hour, 2),
            Some('I') => number((hour + 11) % 12 + 1, 2),
            Some('M') => number(minute, 2),
            Some('S') => number(second, 2),
            Some('j') => number(days - days_before(year) + 1, 3),
            Some('b') => out.push_str(&month_name[..3]),
            Some('B') => out.push_str(month_name),
            Some('a') => out.push_str(&day_name[..3]),
            Some('A') => out.push_str(day_name),
            Some('p') => out.push_str(if hour < 12 { "AM" } else { "PM" }),
            Some('%') => out.push('%'),
            other => {
                out.push('%');
                out.extend(plain.then_some('-'));
                out.extend(other);
            }
        }
    }
    out
}

/// Days from 1970-01-01 to the first of January of `year`.
fn days_before(year: u64) -> u64 {
    let before = year - 1;
    before * 365 + before / 4 - before / 100 + before / 400 - 719_162
}

/// Year, month and day of the day `days` after 1970-01-01.
fn civil_date(days: u64) -> (u64, u64, u64) {
    // Never too late: a Gregorian year has at least 365 days.
    let mut year = 1970 + days / 366;
    while days_before(year + 1) <= days {
        year += 1;
    }
    let leap = year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    let lengths = [31, if leap { 29 } else { 28 }, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let mut day = days - days_before(year);
    let mut month = 1;
    for length in lengths {
        if day < length {
            break;
        }
        day -= length;
        month += 1;
    }
    (year, month, day + 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn at(seconds: u64) -> SystemTime {
        UNIX_EPOCH + Duration::from_secs(seconds)
    }

    #[test]
    fn dates_of_the_calendar() {
        // date -u -d @N
        assert_eq!(strftime("%Y-%m-%d %H:%M:%S %a %j", at(0)), "1970-01-01 00:00:00 Thu 001");
        assert_eq!(strftime("%d %b %Y, %A %-d %B", at(951_782_400)), "29 Feb 2000, Tuesday 29 February");
        assert_eq!(strftime("%Y-%m-%d %I:%M %p %j", at(1_735_689_599)), "2024-12-31 11:59 PM 366");
        assert_eq!(strftime("%-d/%-m/%y 100%% %q", at(4_102_444_800)), "1/1/00 100% %q");
    }

    #[test]
    fn json_as_python_writes_it() {
        let value = Value::from(minijinja::value::Serde(
            serde_json::json!({"a": [1, 2.5, true, null], "b": {}, "é": "<\"\n\u{1}>"}),
        ));
        let write = |indent| {
            let mut out = String::new();
            write_json(&value, indent, 0, &mut out).unwrap();
            out
        };
        assert_eq!(write(None), r#"{"a": [1, 2.5, true, null], "b": {}, "é": "<\"\n\u0001>"}"#);
        assert_eq!(
            write(Some(2)),
            "{\n  \"a\": [\n    1,\n    2.5,\n    true,\n    null\n  ],\n  \"b\": {},\n  \"é\": \"<\\\"\\n\\u0001>\"\n}"
        );
    }
}
