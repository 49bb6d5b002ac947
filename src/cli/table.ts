/**
 * Question: how do rows of figures become text that a person can read?
 *
 * Columns as wide as their widest cell, numbers to the right, words to the left. Widths count UTF-16
 * units: what is shown are ids and figures. Control characters are made visible, since ids may come
 * from anywhere and a terminal would obey them.
 */

type Cell = string | number | null | undefined

/** Rows under a head, two spaces apart, without spaces at line ends. */
function table(head: readonly string[], rows: readonly (readonly Cell[])[]): string {
  const cells = rows.map((row) => row.map(text))
  const widths = head.map((name, column) => {
    return Math.max(name.length, ...cells.map((row) => row[column]?.length ?? 0))
  })
  const numeric = head.map((_, column) => rows.some((row) => typeof row[column] === 'number'))
  const line = (row: readonly string[]) => {
    const padded = widths.map((width, column) => {
      const cell = row[column] ?? ''
      return numeric[column] ? cell.padStart(width) : cell.padEnd(width)
    })
    return padded.join('  ').trimEnd()
  }
  return [head, ...cells].map(line).join('\n')
}

/** Rows of texts, the first column to the left and the others to the right, `gap` spaces apart. */
function columns(rows: readonly (readonly string[])[], gap: number): string {
  const widths = (rows[0] ?? []).map((_, column) =>
    Math.max(...rows.map((row) => row[column]?.length ?? 0)),
  )
  const padded = (cell: string, column: number) => {
    const width = widths[column] ?? 0
    return column === 0 ? cell.padEnd(width) : cell.padStart(width)
  }
  return rows.map((row) => row.map(padded).join(' '.repeat(gap)).trimEnd()).join('\n')
}

/** A cell: whole numbers in groups of three, others with three digits behind the point. */
function text(cell: Cell): string {
  if (cell === undefined || cell === null) return '-'
  if (typeof cell === 'string') return visible(cell)
  const digits = Number.isInteger(cell) ? 0 : 3
  return cell.toLocaleString('en-US', { minimumFractionDigits: digits, maximumFractionDigits: 3 })
}

/** The same text with control characters as `\xNN`. */
function visible(raw: string): string {
  return raw.replace(/\p{Cc}/gu, (character) => {
    return `\\x${character.charCodeAt(0).toString(16).padStart(2, '0')}`
  })
}

export { type Cell, columns, table, text, visible }
