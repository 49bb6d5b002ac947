/**
 * Question: what does a configuration file say?
 *
 * JSON or YAML, by its ending; any other ending is read as YAML, of which JSON is a part. A message of
 * a parser may quote the file, and with it a credential, so only the position of a mistake is told.
 */
import { readFile } from 'node:fs/promises'
import { LineCounter, parseDocument } from 'yaml'
import { WarmpathError } from '../index.js'
import { type Environment, type GatewayConfig, readConfig } from './config.js'

/** Larger files are none that a person wrote. */
const MAX_BYTES = 16 * 1024 * 1024

/** Throws WARMPATH_CONFIG naming the file, the field or the position. */
async function loadConfig(file: string, environment: Environment): Promise<GatewayConfig> {
  const text = await readText(file)
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
  try {
    return JSON.parse(text)
  } catch (error) {
    const position = /position \d+( \(line \d+ column \d+\))?/.exec((error as Error).message)?.[0]
    throw invalid(file, 'JSON', position)
  }
}

function fromYaml(file: string, text: string): unknown {
  const lines = new LineCounter()
  const document = parseDocument(text, { lineCounter: lines, prettyErrors: false })
  const [mistake] = document.errors
  if (mistake !== undefined) {
    const { line, col } = lines.linePos(mistake.pos[0])
    throw invalid(file, 'YAML', `line ${line} column ${col} (${mistake.code})`)
  }
  try {
    return document.toJS({ maxAliasCount: 100 })
  } catch {
    throw invalid(file, 'YAML', undefined)
  }
}

function invalid(file: string, format: string, position: string | undefined): WarmpathError {
  const where = position === undefined ? '' : ` at ${position}`
  return new WarmpathError('WARMPATH_CONFIG', `${file} is not valid ${format}${where}`)
}

export { loadConfig, readText }
