/** An agent of the OpenAI Agents SDK, which trial.mjs runs. */
import { Agent, OpenAIProvider, Runner, setTracingDisabled, tool } from '@openai/agents';
import { watchRunner } from '@understudy-gateway/openai-agents';
import OpenAI from 'openai';
import { z } from 'zod';
import { isWatched, search, tryAll, untilAbort, url } from './trial.mjs';

setTracingDisabled(true);
const openAIClient = new OpenAI({ baseURL: `${url}/v1`, apiKey: 'provider-key', maxRetries: 0 });
const plain = new Runner({ modelProvider: new OpenAIProvider({ openAIClient, useResponses: true }) });
const runner = isWatched ? watchRunner(plain) : plain;

const searchTool = tool({
  name: 'search',
  description: 'Searches.',
  parameters: z.object({ query: z.string() }),
  execute: search,
});
const ask = tool({
  name: 'ask',
  description: 'Asks another.',
  parameters: z.object({ question: z.string() }),
  execute: async ({ question }) => (await runner.run(agentWith([searchTool]), question)).finalOutput,
});
const agentWith = (tools) =>
  new Agent({ name: 'Finder', instructions: 'Find.', model: 'gpt-demo-large', tools });
const invoke = async (text, tools = [searchTool]) => {
  const { finalOutput, history } = await runner.run(agentWith(tools), text);
  return { finalOutput, items: history.map(({ type }) => type) };
};
const stream = (text, more) => runner.run(agentWith([searchTool]), text, { stream: true, ...more });
const read = async (result) => {
  for await (const _ of result);
  await result.completed;
  return result.finalOutput;
};

await tryAll({
  whole: () => invoke('Say it.', []),
  tools: () => invoke('Where is it?'),
  failing: () => invoke('Where is the bad one?'),
  streamed: async () => read(await stream('Where is it?')),
  later: async () => {
    const result = await stream('Where is it?');
    return { read: () => read(result) };
  },
  refused: () => invoke('refused'),
  aborted: async () => {
    const controller = new AbortController();
    const result = await stream('held', { signal: controller.signal });
    let text = '';
    try {
      for await (const event of result) {
        if (event.type === 'raw_model_stream_event' && event.data.type === 'output_text_delta')
          text += event.data.delta;
        if (text.includes('two')) controller.abort();
      }
    } catch (thrown) {
      return { text: untilAbort(text), name: thrown.name };
    }
    return { text: untilAbort(text) };
  },
  nested: () => invoke('Where?', [ask]),
});
