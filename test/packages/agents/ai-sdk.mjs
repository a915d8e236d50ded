/** An agent of the AI SDK 5, 6 or 7, which trial.mjs runs. */
import { createOpenAI } from '@ai-sdk/openai';
import { understudyMiddleware, understudyTelemetry } from '@understudy-gateway/ai-sdk';
import * as ai from 'ai';
import { z } from 'zod';
import { isWatched, search, tryAll, untilAbort, url } from './trial.mjs';

const model = createOpenAI({ baseURL: `${url}/v1`, apiKey: 'provider-key' }).chat('gpt-demo-large');
const isNew = 'registerTelemetry' in ai;
const stopAt = ai.isStepCount ?? ai.stepCountIs;
if (isWatched && isNew) ai.registerTelemetry(understudyTelemetry());

const searchTool = ai.tool({
  description: 'Searches.',
  inputSchema: z.object({ query: z.string() }),
  execute: search,
});
const settings = (prompt, tools = { search: searchTool }) => ({
  model: isWatched ? ai.wrapLanguageModel({ model, middleware: understudyMiddleware() }) : model,
  prompt,
  tools,
  stopWhen: stopAt(10),
  maxRetries: 0,
  onError: () => {},
});
const generate = async (prompt, tools) => {
  const { text, totalUsage, steps } = await ai.generateText(settings(prompt, tools));
  return { text, tokens: totalUsage.totalTokens, steps: steps.length };
};
const read = async (result) => {
  const parts = [];
  for await (const part of result.fullStream) parts.push(part.type);
  return { parts, text: await result.text };
};
const ask = ai.tool({
  description: 'Asks another.',
  inputSchema: z.object({ question: z.string() }),
  execute: async ({ question }) => (await generate(question)).text,
});

await tryAll({
  whole: () => generate('Say it.', {}),
  tools: () => generate('Where is it?'),
  failing: () => generate('Where is the bad one?'),
  streamed: () => read(ai.streamText(settings('Where is it?'))),
  later: () => {
    const result = ai.streamText(settings('Where is it?'));
    return { read: () => read(result) };
  },
  refused: () => generate('refused'),
  aborted: async () => {
    const controller = new AbortController();
    const result = ai.streamText({ ...settings('held', {}), abortSignal: controller.signal });
    let text = '';
    for await (const part of result.fullStream) {
      if (part.type === 'text-delta') text += part.text;
      if (text.includes('two')) controller.abort();
    }
    return untilAbort(text);
  },
  nested: () => generate('Where?', { ask }),
});
