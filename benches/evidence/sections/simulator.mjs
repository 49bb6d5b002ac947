/** The simulator beside the published one, under pressure, in cost, and beside engines over HTTP. */
import { claudeCodeClaims } from '../simulator/claude-code.mjs'
import { consistencyClaims } from '../simulator/consistency.mjs'
import { costClaims, scaleClaims } from '../simulator/cost.mjs'
import { decisionClaims } from '../simulator/decisions.mjs'
import { eventClaims } from '../simulator/events.mjs'
import { parityClaims } from '../simulator/parity.mjs'
import { pressureClaims } from '../simulator/pressure.mjs'

export default {
  title: 'The simulator',
  about:
    'Public traces are read from `../shared/data` (or `WARMPATH_SHARED`); without them their rows are skipped. The published simulator is run when `WARMPATH_PEER_PYTHON` names a Python that has its wheels, else its figures are those recorded in `benches/evidence/simulator` (`peer.json`, `claude-code.json`).',
  limits: [
    'Little reuse: on the Mooncake conversations, single requests of which a cache without end would find 37 %, our `kv` is as good as the published router and no better.',
    'No pressure: at half of what the caches hold nothing has to wait, and admission wins little over `kv`.',
    'The timing models are fits; milliseconds of a machine are not claimed. `h100-class` shares no prefix between sessions.',
    'Events that are lost for good: each gap voids what was known of an engine, so without its replay socket a feed that loses messages is worse than none.',
    'Consistency is with engine doubles, which run the same engine model behind HTTP: it checks fleet, router and clock, not the model.',
  ],
  parts: {
    parity: parityClaims,
    'claude-code': claudeCodeClaims,
    events: eventClaims,
    pressure: pressureClaims,
    consistency: consistencyClaims,
    decisions: decisionClaims,
    cost: costClaims,
    scale: scaleClaims,
  },
}
