/**
 * Question: what does a configuration file say?
 *
 * JSON or YAML, by its ending; any other ending is read as YAML, of which JSON is a part. A message of
 * a parser may quote the file, and with it a credential, so only the position of a mistake is told.
 */
import { readFile } from 'node:fs/promises'
import { type Document, LineCounter, parseDocument } from 'yaml'
import { WarmpathError } from '../index.js'
import { type Environment, type GatewayConfig, readConfig } from './config.js'

/** Larger files are none that a person wrote. */
const MAX_BYTES = 16 * 1024 * 1024

/** Throws WARMPATH_CONFIG naming the file, the field or the position. */
async function loadConfig(file: string, environment: Environment): Promise<GatewayConfig> {
  const text = await readText(file)
  if (text === '') throw new WarmpathError('WARMPATH_CONFIG', `${file} is empty`)
  return readConfig(
    file.endsWith('.json') ? fromJson(file, text) : fromYaml(file, text),
    environment,
  )
}

/** The trimmed text of a file. Throws WARMPATH_CONFIG. */
async function readText(file: string): Promise<string> {
  let text: string
  try {
    text = (await readFile(file, 'utf8')).replace(/^\ufeff/, '').trim()
  } catch (error) {
    const code = (error as NodeJS.ErrnoException).code ?? 'an error'
    throw new WarmpathError('WARMPATH_CONFIG', `cannot read ${file} (${code})`)
  }
  if (text.length <= MAX_BYTES) return text
  throw new WarmpathError('WARMPATH_CONFIG', `${file} is larger than ${MAX_BYTES} bytes`)
}

function fromJson(file: string, text: string): unknown {
  // What JSON.parse says of a place differs by version, and it takes a key twice.
  const { mistakes } = parsed(text, 'json')
  let value: unknown
  try {
    value = JSON.parse(text)
  } catch (error) {
    const offset = /position (\d+)/.exec((error as Error).message)?.[1]
    throw invalid(file, 'JSON', offset ? positionOf(text, Number(offset)) : mistakes[0]?.at)
  }
  const twice = mistakes.find(({ code }) => code === 'DUPLICATE_KEY')
  if (twice !== undefined) throw invalid(file, 'JSON', `${twice.at} (${twice.code})`)
  return value
}

function positionOf(text: string, offset: number): string {
  const before = text.slice(0, offset).split('\n')
  return `line ${before.length} column ${(before.at(-1)?.length ?? 0) + 1}`
}

function parsed(text: string, schema: 'json' | 'core') {
  const lines = new LineCounter()
  const document = parseDocument(text, { lineCounter: lines, prettyErrors: false, schema })
  const mistakes = document.errors.map(({ code, pos }) => {
    const { line, col } = lines.linePos(pos[0])
    return { code, at: `line ${line} column ${col}` }
  })
  return { document, mistakes }
}

function fromYaml(file: string, text: string): unknown {
  const { document, mistakes } = parsed(text, 'core')
  const [mistake] = mistakes
  if (mistake !== undefined) throw invalid(file, 'YAML', `${mistake.at} (${mistake.code})`)
  const value = inJs(document)
  if (isTree(value)) return value
  throw new WarmpathError('WARMPATH_CONFIG', `${file} refers to itself, or to itself too often`)
}

/** Undefined where aliases stand for too much. */
function inJs(document: Document): unknown {
  try {
    return document.toJS({ maxAliasCount: 100 }) ?? null
  } catch {
    return undefined
  }
}

/** Whether nothing holds itself. */
function isTree(value: unknown): boolean {
  if (value === undefined) return false
  try {
    JSON.stringify(value)
    return true
  } catch {
    return false
  }
}

function invalid(file: string, format: string, position: string | undefined): WarmpathError {
  const where = position === undefined ? '' : ` at ${position}`
  return new WarmpathError('WARMPATH_CONFIG', `${file} is not valid ${format}${where}`)
}

export { loadConfig, readText }
