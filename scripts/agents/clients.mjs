/**
 * The three agents: which package, how each is told where its model is, and how it is given a task.
 *
 * Everything an agent reads or writes is below a home folder of its own.
 */
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'

/**
 * `window`: tokens of its first prompt as a double counts them, by which doubles are sized so that
 * four sessions want more than both have.
 */
export const CLIENTS = {
  'claude-code': {
    package: '@anthropic-ai/claude-code',
    version: '2.1.197',
    postinstall: 'install.cjs',
    window: 40_000,
    model: 'claude-opus-4-8',
    prepare: () => ({
      bin: 'claude',
      args: (prompt) => [
        ...['-p', prompt, '--model', 'claude-opus-4-8'],
        ...['--allowedTools', 'Bash', 'Agent'],
      ],
      env: (url) => ({
        ANTHROPIC_BASE_URL: url,
        ANTHROPIC_API_KEY: 'an-agent',
        ANTHROPIC_DEFAULT_HAIKU_MODEL: 'side-model',
        CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: '1',
        DISABLE_TELEMETRY: '1',
        DISABLE_AUTOUPDATER: '1',
        IS_SANDBOX: '1',
      }),
    }),
  },
  codex: {
    package: '@openai/codex',
    version: '0.171.0',
    window: 16_000,
    model: 'gpt-5',
    prepare(home, url) {
      mkdirSync(join(home, '.codex'), { recursive: true })
      writeFileSync(join(home, '.codex/config.toml'), codexConfig(url))
      return {
        bin: 'codex',
        args: (prompt) => ['exec', '--skip-git-repo-check', prompt],
        env: () => ({ AGENT_KEY: 'an-agent', CODEX_HOME: join(home, '.codex') }),
      }
    },
  },
  opencode: {
    package: 'opencode-ai',
    version: '1.18.33',
    window: 14_000,
    model: 'warmpath-large',
    postinstall: 'postinstall.mjs',
    prepare(home, url, work) {
      writeFileSync(join(work, 'opencode.json'), JSON.stringify(opencodeConfig(url)))
      return {
        bin: 'opencode',
        args: (prompt) => ['run', prompt],
        env: () => ({
          XDG_CONFIG_HOME: join(home, 'config'),
          XDG_DATA_HOME: join(home, 'data'),
          OPENCODE_DISABLE_AUTOUPDATE: '1',
          OPENCODE_DISABLE_MODELS_FETCH: '1',
        }),
      }
    },
  },
}

function codexConfig(url) {
  return `model = "gpt-5"
model_provider = "warmpath"
approval_policy = "never"
sandbox_mode = "danger-full-access"

[model_providers.warmpath]
name = "warmpath"
base_url = "${url}/v1"
env_key = "AGENT_KEY"
wire_api = "responses"
`
}

function opencodeConfig(url) {
  return {
    model: 'warmpath/warmpath-large',
    small_model: 'warmpath/side-model',
    share: 'disabled',
    autoupdate: false,
    permission: { bash: 'allow', task: 'allow' },
    provider: {
      warmpath: {
        npm: '@ai-sdk/openai-compatible',
        name: 'warmpath',
        options: { baseURL: `${url}/v1`, apiKey: 'an-agent' },
        models: { 'warmpath-large': { name: 'large' }, 'side-model': { name: 'side' } },
      },
    },
  }
}
