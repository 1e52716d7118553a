//! The report as a picture.

use super::{Outcome, Report};
use std::fmt::Write;

const WIDTH: usize = 900;
const LABELS: usize = 320;
const BARS: usize = 340;
const ROW: usize = 24;
const HEAD: usize = 64;

impl Report {
    /// Reports as an SVG picture: for each benchmark a bar as long as its share of the device's limit, and its rate.
    pub fn chart(reports: &[Report]) -> String {
        let rows: usize = reports.iter().map(|report| report.results.len()).sum();
        let height = 24 + reports.len() * (HEAD + 40) + rows * ROW;
        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{height}\" viewBox=\"0 0 {WIDTH} {height}\" \
             font-family=\"system-ui, 'DejaVu Sans', sans-serif\" font-size=\"13\">\n\
             <rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n"
        );
        let mut y = 12;
        for report in reports {
            y = report.panel(&mut svg, y);
        }
        svg.push_str("</svg>\n");
        svg
    }

    /// One device, from `top` down; where the next begins.
    fn panel(&self, svg: &mut String, top: usize) -> usize {
        let title = escape(&format!("{} · {}", self.device, self.name));
        text(svg, 20, top + 20, "font-size=\"16\" font-weight=\"600\" fill=\"#1a1a2e\"", &title);
        text(
            svg,
            LABELS,
            top + 48,
            "font-size=\"11\" fill=\"#667085\"",
            "share of the limit measured in the same run",
        );
        let (first, bottom) = (top + HEAD, top + HEAD + self.results.len() * ROW);
        for percent in [0, 25, 50, 75, 100] {
            let x = LABELS + BARS * percent / 100;
            let _ = writeln!(
                svg,
                "<line x1=\"{x}\" y1=\"{}\" x2=\"{x}\" y2=\"{bottom}\" stroke=\"#e4e7ec\"/>",
                first - 4
            );
            text(
                svg,
                x,
                bottom + 16,
                "font-size=\"11\" fill=\"#667085\" text-anchor=\"middle\"",
                &format!("{percent} %"),
            );
        }
        for (i, result) in self.results.iter().enumerate() {
            let y = first + i * ROW;
            let mut label = format!("{} {}", result.benchmark, result.dtype);
            let middle = y + 15;
            match &result.outcome {
                Outcome::Measured(m) => {
                    let _ = write!(label, ", {}", m.size);
                    let share = m.share.unwrap_or(0.0).clamp(0.0, 1.0);
                    let color = match m.bound {
                        super::Bound::Arithmetic => "#7a5af8",
                        super::Bound::Memory => "#2e90fa",
                        super::Bound::Link => "#12b76a",
                    };
                    let _ = writeln!(
                        svg,
                        "<rect x=\"{LABELS}\" y=\"{}\" width=\"{:.1}\" height=\"{}\" rx=\"2\" fill=\"{color}\"/>",
                        y + 3,
                        BARS as f64 * share,
                        ROW - 8
                    );
                    let share = m.share.map_or(String::new(), |share| format!(" · {:.0} %", 100.0 * share));
                    let value = format!("{}{share} · {}", m.rate, m.bound.name());
                    text(svg, LABELS + BARS + 12, middle, "fill=\"#344054\"", &escape(&value));
                }
                Outcome::Declined(reason) => missing(svg, middle, "declined", reason),
                Outcome::Failed(reason) => missing(svg, middle, "failed", reason),
            }
            let label = escape(&label);
            text(svg, LABELS - 12, middle, "fill=\"#344054\" text-anchor=\"end\"", &label);
        }
        bottom + 40
    }
}

fn missing(svg: &mut String, y: usize, what: &str, reason: &str) {
    let mut reason: String = reason.chars().take(80).collect();
    if reason.len() == 80 {
        reason.push('…');
    }
    let text_of = escape(&format!("{what}: {reason}"));
    text(svg, LABELS + 6, y, "font-style=\"italic\" fill=\"#98a2b3\"", &text_of);
}

/// A text whose content is fit for XML already.
fn text(svg: &mut String, x: usize, y: usize, style: &str, content: &str) {
    let _ = writeln!(svg, "<text x=\"{x}\" y=\"{y}\" {style}>{content}</text>");
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
