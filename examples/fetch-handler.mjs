// A fetch handler, as Hono, Deno-style servers and edge runtimes on Node call it:
//   import { handler } from './fetch-handler.mjs'
//   const handle = handler(['http://engine-1:8000', 'http://engine-2:8000'])
//   const response = await handle(request)
import { responseHeaders, Scheduler, WarmpathError } from 'warmpath'

/** `(Request) => Promise<Response>` over the workers at these addresses. */
export function handler(urls) {
  const scheduler = new Scheduler({ workers: urls.map((url) => ({ url })) })
  return async (request) => {
    try {
      return await serve(scheduler, request)
    } catch (error) {
      return errorResponse(error)
    }
  }
}

async function serve(scheduler, request) {
  const { pathname, search } = new URL(request.url)
  const turn = await scheduler.submit({
    path: pathname + search,
    method: request.method,
    headers: request.headers,
    raw: new Uint8Array(await request.arrayBuffer()),
    signal: request.signal, // a client that leaves gives its reservation back
  })
  try {
    const answer = turn.observe(await fetch(turn.url, turn.init))
    return new Response(answer.body, {
      status: answer.status,
      headers: responseHeaders(answer.headers),
    })
  } catch (error) {
    turn.fail(error)
    throw error
  }
}

function errorResponse(error) {
  const known = WarmpathError.is(error)
  const message = known ? error.message : 'the worker could not be reached'
  return Response.json(
    { error: { message, code: known ? error.code : 'WARMPATH_UPSTREAM' } },
    { status: known ? error.status : 502 },
  )
}
