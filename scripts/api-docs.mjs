/**
 * `npm run docs:api [-- --check]`: docs/api.md from the declarations and their comments, or whether it
 * is still what they say. Needs the built TypeScript (dist).
 *
 * What is exported, its signature and its comment come from API Extractor, which reads declarations as
 * the compiler does; this file only writes them down, one section a name.
 */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Extractor, ExtractorConfig } from '@microsoft/api-extractor'

const root = join(import.meta.dirname, '..')
const PAGE = join(root, 'docs/api.md')
const KINDS = [
  ['Class', 'Classes'],
  ['Function', 'Functions'],
  ['Variable', 'Values'],
  ['Interface', 'Types'],
  ['TypeAlias', 'Types'],
]

/** The exported declarations, as API Extractor's document model has them. */
function readModel() {
  const scratch = mkdtempSync(join(tmpdir(), 'warmpath-api-'))
  const apiJsonFilePath = join(scratch, 'api.json')
  try {
    const config = ExtractorConfig.prepare({
      configObject: configObject(apiJsonFilePath),
      configObjectFullPath: undefined,
      packageJsonFullPath: join(root, 'package.json'),
    })
    Extractor.invoke(config, { localBuild: true, messageCallback: quiet })
    return JSON.parse(readFileSync(apiJsonFilePath, 'utf8')).members[0].members
  } finally {
    rmSync(scratch, { recursive: true })
  }
}

function configObject(apiJsonFilePath) {
  const compilerOptions = {
    target: 'es2022',
    module: 'node16',
    moduleResolution: 'node16',
    strict: true,
    skipLibCheck: true,
    types: ['node'],
    lib: ['es2023', 'esnext.disposable', 'dom'],
  }
  const include = ['dist/index.d.ts']
  return {
    projectFolder: root,
    mainEntryPointFilePath: join(root, 'dist/index.d.ts'),
    compiler: { overrideTsconfig: { compilerOptions, include } },
    apiReport: { enabled: false },
    docModel: { enabled: true, apiJsonFilePath },
    dtsRollup: { enabled: false },
    tsdocMetadata: { enabled: false },
  }
}

/** Comments here follow no TSDoc tags; what cannot be read at all still throws. */
function quiet(message) {
  message.handled = message.logLevel !== 'error'
}

function page(members) {
  const sections = [...new Set(KINDS.map(([, title]) => title))].map((title) => {
    const kinds = KINDS.filter(([, each]) => each === title).map(([kind]) => kind)
    const listed = members.filter(({ kind }) => kinds.includes(kind))
    return `## ${title}\n\n${listed.map(section).join('\n')}`
  })
  return `# API

What \`import { ... } from 'warmpath'\` gives. Written by \`npm run docs:api\` from the comments in the source; errors have [a page of their own](errors.md).

${sections.join('\n')}`
}

function section(member) {
  const parts = [
    `### ${member.name.replace(/_\d+$/, '')}`,
    '',
    ...comment(member),
    ...code([signature(member)]),
  ]
  const members = (member.members ?? []).filter(({ kind }) => kind !== 'CallSignature')
  if (members.length > 0) parts.push(...code(members.map(documented)))
  return `${parts.join('\n')}\n`
}

/** A member of a class or interface, below its comment. */
function documented(member) {
  const text = comment(member).filter((line) => line !== '')
  return [...text.map((line) => `// ${line}`), signature(member)].join('\n')
}

function signature({ excerptTokens }) {
  const text = excerptTokens.map((token) => token.text).join('')
  return text.replace(/^export (declare )?/, '').trim()
}

function code(lines) {
  return ['```ts', lines.join('\n'), '```', '']
}

/** The lines of a comment, without its frame. */
function comment({ docComment = '' }) {
  const lines = docComment
    .replace(/^\/\*\*|\*\/\s*$/g, '')
    .split('\n')
    .map((line) => line.replace(/^\s*\* ?/, '').trimEnd())
  // What API Extractor says of a constructor that has no comment.
  const own = lines.filter((line) => !line.startsWith('Constructs a new instance of the'))
  const text = own
    .join('\n')
    .replaceAll(/\{@link ([^}|]+)[^}]*\}/g, '`$1`')
    .trim()
  return text === '' ? [] : [...text.split('\n'), '']
}

const wanted = page(readModel())
if (!process.argv.includes('--check')) writeFileSync(PAGE, wanted)
else if (readFileSync(PAGE, 'utf8') !== wanted) {
  process.stderr.write('docs/api.md is not what the source says: npm run docs:api\n')
  process.exitCode = 1
}
