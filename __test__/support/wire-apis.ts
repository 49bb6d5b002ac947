/** The wire APIs as the gateway's specs speak them: a request, its answer and its stream, one a kind. */
const API = {
  'openai-chat': {
    path: '/v1/chat/completions',
    request: { model: 'm', messages: [{ role: 'user', content: 'Hello' }] },
    answer: {
      id: 'chatcmpl-1',
      object: 'chat.completion',
      model: 'm',
      choices: [{ index: 0, message: { role: 'assistant', content: 'Hi' }, finish_reason: 'stop' }],
      usage: { prompt_tokens: 5, completion_tokens: 1, total_tokens: 6 },
    },
    events: [
      'data: {"id":"chatcmpl-1","choices":[{"index":0,"delta":{"content":"Hi"}}]}\n\n',
      'data: {"id":"chatcmpl-1","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\n',
      'data: [DONE]\n\n',
    ],
  },
  'openai-responses': {
    path: '/v1/responses',
    request: { model: 'm', input: 'Hello' },
    answer: {
      id: 'resp_1',
      object: 'response',
      status: 'completed',
      output: [
        { type: 'message', role: 'assistant', content: [{ type: 'output_text', text: 'Hi' }] },
      ],
      usage: { input_tokens: 5, output_tokens: 1, total_tokens: 6 },
    },
    events: [
      'event: response.created\ndata: {"type":"response.created","response":{"id":"resp_1"}}\n\n',
      'event: response.output_text.delta\ndata: {"type":"response.output_text.delta","delta":"Hi"}\n\n',
      'event: response.completed\ndata: {"type":"response.completed","response":{"id":"resp_1","status":"completed"}}\n\n',
    ],
  },
  'anthropic-messages': {
    path: '/v1/messages',
    request: { model: 'm', max_tokens: 16, messages: [{ role: 'user', content: 'Hello' }] },
    answer: {
      id: 'msg_1',
      type: 'message',
      role: 'assistant',
      content: [{ type: 'text', text: 'Hi' }],
      stop_reason: 'end_turn',
      usage: { input_tokens: 5, output_tokens: 1 },
    },
    events: [
      'event: message_start\ndata: {"type":"message_start","message":{"id":"msg_1","usage":{"input_tokens":5}}}\n\n',
      'event: content_block_delta\ndata: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"Hi"}}\n\n',
      'event: message_stop\ndata: {"type":"message_stop"}\n\n',
    ],
  },
} as const

type ApiName = keyof typeof API

const API_NAMES = Object.keys(API) as ApiName[]

export { API, API_NAMES, type ApiName }
