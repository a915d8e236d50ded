/** An agent of LangChain 0.3 (LangGraph's prebuilt agent) or 1 (`createAgent`), which trial.mjs runs. */
import { tool } from '@langchain/core/tools';
import { ChatOpenAI } from '@langchain/openai';
import { UnderstudyHandler } from '@understudy-gateway/langchain';
import { z } from 'zod';
import { isWatched, search, tryAll, untilAbort, url } from './trial.mjs';

const model = () =>
  new ChatOpenAI({
    model: 'gpt-demo-large',
    apiKey: 'provider-key',
    maxRetries: 0,
    streamUsage: true,
    configuration: { baseURL: `${url}/v1` },
  });
// 0.3 has no main module.
const langchain = await import('langchain').catch(() => ({}));
const isNew = 'createAgent' in langchain;

async function makeAgent(tools) {
  if (!isNew) {
    // The main module of LangGraph must be loaded, because it passes callbacks on to agents within tools.
    await import('@langchain/langgraph');
    const { createReactAgent } = await import('@langchain/langgraph/prebuilt');
    return createReactAgent({ llm: model(), tools });
  }
  const { understudyMiddleware } = await import('@understudy-gateway/langchain/middleware');
  return langchain.createAgent({
    model: model(),
    tools,
    middleware: isWatched ? [understudyMiddleware()] : [],
  });
}

const searchTool = tool(search, {
  name: 'search',
  description: 'Searches.',
  schema: z.object({ query: z.string() }),
});
const ask = tool(
  async ({ question }) => {
    const agent = await makeAgent([searchTool]);
    const { messages } = await agent.invoke({ messages: [{ role: 'user', content: question }] });
    return String(messages.at(-1).content);
  },
  { name: 'ask', description: 'Asks another.', schema: z.object({ question: z.string() }) },
);
const input = (content) => ({ messages: [{ role: 'user', content }] });
const settings = (more) => ({ callbacks: isWatched ? [new UnderstudyHandler()] : [], ...more });
const invoke = async (content, tools = [searchTool]) => {
  const { messages } = await (await makeAgent(tools)).invoke(input(content), settings());
  return messages.map((message) => ({ type: message._getType(), content: message.content }));
};
const stream = async (content, more) =>
  (await makeAgent([searchTool])).stream(input(content), settings({ streamMode: 'messages', ...more }));
const read = async (parts) => {
  let text = '';
  for await (const [message] of parts) text += message.content;
  return text;
};

await tryAll({
  whole: () => invoke('Say it.', []),
  tools: () => invoke('Where is it?'),
  failing: () => invoke('Where is the bad one?'),
  streamed: async () => read(await stream('Where is it?')),
  later: async () => {
    const parts = await stream('Where is it?');
    return { read: () => read(parts) };
  },
  refused: () => invoke('refused'),
  aborted: async () => {
    const controller = new AbortController();
    let text = '';
    try {
      for await (const [message] of await stream('held', { signal: controller.signal })) {
        text += message.content;
        if (text.includes('two')) controller.abort();
      }
    } catch (thrown) {
      return { text: untilAbort(text), name: thrown.name };
    }
    return { text: untilAbort(text) };
  },
  nested: () => invoke('Where?', [ask]),
});
