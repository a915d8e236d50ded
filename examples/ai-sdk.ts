import { openai } from '@ai-sdk/openai';
import { understudyMiddleware, understudyTelemetry } from '@understudy-gateway/ai-sdk';
import { Understudy } from '@understudy-gateway/client';
import { generateText, isStepCount, registerTelemetry, tool, wrapLanguageModel } from 'ai';
import { z } from 'zod';

registerTelemetry(understudyTelemetry());
const inputSchema = z.object({ query: z.string() });
const search = tool({ inputSchema, execute: ({ query }) => `Nothing about ${query}.` });
const model = wrapLanguageModel({ model: openai('gpt-demo-large'), middleware: understudyMiddleware() });
const understudy = new Understudy();
const ask = { model, tools: { search }, stopWhen: isStepCount(5), prompt: 'Where is Ada?' };
const { text } = await understudy.run({ task: 'Find Ada', framework: 'ai-sdk' }, () => generateText(ask));
console.log(text);
await understudy.close();
