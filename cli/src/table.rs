//! Plain text tables.

/// Where a column's text stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Align {
    /// Names.
    Left,
    /// Numbers.
    Right,
}

/// A table whose columns' widths are known before the rows, so that rows can be printed as they come.
#[derive(Debug)]
pub struct Table {
    columns: Vec<(&'static str, Align, usize)>,
}

impl Table {
    /// Columns with their least widths.
    pub fn new(columns: &[(&'static str, Align, usize)]) -> Table {
        let columns = columns.iter().map(|&(name, align, width)| (name, align, width.max(width_of(name)))).collect();
        Table { columns }
    }

    /// Makes the columns wide enough for these rows.
    pub fn fit(mut self, rows: &[Vec<String>]) -> Table {
        for row in rows {
            for (column, cell) in self.columns.iter_mut().zip(row) {
                column.2 = column.2.max(width_of(cell));
            }
        }
        self
    }

    /// The line of names.
    pub fn head(&self) -> String {
        self.line(&self.columns.iter().map(|c| c.0.to_string()).collect::<Vec<_>>())
    }

    /// One row. Cells that are missing are empty.
    pub fn line(&self, cells: &[String]) -> String {
        let mut out = String::new();
        for (i, &(_, align, width)) in self.columns.iter().enumerate() {
            let cell = cells.get(i).map_or("", |c| c.as_str());
            let gap = " ".repeat(width.saturating_sub(width_of(cell)));
            if i > 0 {
                out += "  ";
            }
            match align {
                Align::Left => out += &format!("{cell}{gap}"),
                Align::Right => out += &format!("{gap}{cell}"),
            }
        }
        out.truncate(out.trim_end().len());
        out
    }

    /// Head and rows.
    pub fn text(&self, rows: &[Vec<String>]) -> String {
        std::iter::once(self.head()).chain(rows.iter().map(|r| self.line(r))).collect::<Vec<_>>().join("\n")
    }
}

fn width_of(text: &str) -> usize {
    text.chars().count()
}

/// A number with about four digits that count.
pub fn short(value: f64) -> String {
    let size = value.abs();
    match size {
        _ if !value.is_finite() => "-".into(),
        0.0 => "0".into(),
        s if !(1e-3..1e6).contains(&s) => format!("{value:.2e}"),
        s if s < 1.0 => format!("{value:.4}"),
        s if s < 100.0 => format!("{value:.3}"),
        s if s < 10_000.0 => format!("{value:.1}"),
        _ => format!("{value:.0}"),
    }
}

/// A time in the unit that people use, with three digits that count.
pub fn time(ms: f64) -> String {
    let (value, unit) = match ms {
        _ if !ms.is_finite() => return "-".into(),
        _ if ms.abs() < 0.09995 => (ms * 1e3, "us"),
        _ if ms.abs() < 999.5 => (ms, "ms"),
        _ => (ms / 1e3, "s"),
    };
    match value.abs() {
        v if v < 9.995 => format!("{value:.2} {unit}"),
        v if v < 99.95 => format!("{value:.1} {unit}"),
        _ => format!("{value:.0} {unit}"),
    }
}

/// Bytes in the unit that people use.
pub fn bytes(count: u64) -> String {
    let units = ["B", "KiB", "MiB", "GiB", "TiB"];
    let mut value = count as f64;
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < units.len() {
        value /= 1024.0;
        unit += 1;
    }
    if value.fract() == 0.0 { format!("{value} {}", units[unit]) } else { format!("{value:.1} {}", units[unit]) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up() {
        let rows = vec![vec!["a".to_string(), "1".into()], vec!["long name".into(), "22.5".into()]];
        let table = Table::new(&[("case", Align::Left, 0), ("ms", Align::Right, 0)]).fit(&rows);
        assert_eq!(table.text(&rows), "case         ms\na             1\nlong name  22.5");
    }

    #[test]
    fn numbers_stay_short() {
        assert_eq!(
            [0.0, 0.00012, 0.25, 3.0, 123.45, 54321.0, 2e7].map(short).join(" "),
            "0 1.20e-4 0.2500 3.000 123.5 54321 2.00e7"
        );
        assert_eq!(
            [0.0007, 0.0123, 0.0999, 0.1, 3.2468, 99.96, 250.4, 999.6].map(time).join(", "),
            "0.70 us, 12.3 us, 99.9 us, 0.10 ms, 3.25 ms, 100 ms, 250 ms, 1.00 s"
        );
        assert_eq!([bytes(512), bytes(32 << 10), bytes(3 << 29)].join(" "), "512 B 32 KiB 1.5 GiB");
    }
}
