/**
 * An agent of the Anthropic SDK with the usual loop, which trial.mjs runs. WAY=fetch selects `understudyFetch`, for
 * versions of the SDK without middleware.
 */
import Anthropic from '@anthropic-ai/sdk';
import { understudyFetch, understudyMiddleware } from '@understudy-gateway/anthropic';
import { isWatched, search, tryAll, untilAbort, url } from './trial.mjs';

const way =
  process.env.WAY === 'fetch' ? { fetch: understudyFetch() } : { middleware: [understudyMiddleware()] };
const client = new Anthropic({
  baseURL: url,
  apiKey: 'provider-key',
  maxRetries: 0,
  ...(isWatched ? way : {}),
});
const declare = (name, field) => ({
  name,
  description: name,
  input_schema: { type: 'object', properties: { [field]: { type: 'string' } }, required: [field] },
});
const tools = {
  search: { declared: declare('search', 'query'), call: search },
  ask: {
    declared: declare('ask', 'question'),
    call: async ({ question }) => (await loop(question, ['search'])).at(-1).content[0].text,
  },
};
const params = (messages, names) => ({
  model: 'claude-demo',
  max_tokens: 100,
  messages,
  ...(names.length === 0 ? {} : { tools: names.map((name) => tools[name].declared) }),
});
const create = (messages, names) => client.messages.create(params(messages, names));
const stream = (messages, names) => client.messages.stream(params(messages, names)).finalMessage();

async function loop(text, names = ['search'], send = create) {
  const messages = [{ role: 'user', content: text }];
  for (;;) {
    const { content } = await send(messages, names);
    messages.push({ role: 'assistant', content });
    const results = [];
    for (const { type, id, name, input } of content) {
      if (type !== 'tool_use') continue;
      const result = { type: 'tool_result', tool_use_id: id };
      try {
        results.push({ ...result, content: await tools[name].call(input) });
      } catch (thrown) {
        results.push({ ...result, content: String(thrown), is_error: true });
      }
    }
    if (results.length === 0) return messages;
    messages.push({ role: 'user', content: results });
  }
}

await tryAll({
  whole: () => loop('Say it.', []),
  tools: () => loop('Where is it?'),
  failing: () => loop('Where is the bad one?'),
  streamed: () => loop('Where is it?', ['search'], stream),
  later: () => {
    const begun = client.messages.stream(params([{ role: 'user', content: 'Say it.' }], []));
    return { read: async () => (await begun.finalMessage()).content };
  },
  refused: () => loop('refused'),
  aborted: async () => {
    const begun = await client.messages.create({
      ...params([{ role: 'user', content: 'held' }], []),
      stream: true,
    });
    let text = '';
    for await (const event of begun) {
      text += event.delta?.text ?? '';
      if (text.includes('two')) begun.controller.abort();
    }
    return untilAbort(text);
  },
  nested: () => loop('Where?', ['ask']),
});
