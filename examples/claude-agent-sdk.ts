import { createSdkMcpServer, query, tool } from '@anthropic-ai/claude-agent-sdk';
import { understudyHooks } from '@understudy-gateway/claude-agent-sdk';
import { Understudy } from '@understudy-gateway/client';
import { z } from 'zod';

const look = (what: string) => ({ content: [{ type: 'text' as const, text: `Nothing about ${what}.` }] });
const search = tool('search', 'Searches.', { query: z.string() }, async (asked) => look(asked.query));
const mcpServers = { finder: createSdkMcpServer({ name: 'finder', tools: [search] }) };
const options = { model: 'claude-demo-large', mcpServers, allowedTools: ['mcp__finder__search'], tools: [] };
const understudy = new Understudy();
await understudy.run({ task: 'Find Ada', framework: 'claude-agent-sdk' }, async () => {
  const session = query({ prompt: 'Where is Ada?', options: { ...options, hooks: understudyHooks() } });
  for await (const said of session) if ('result' in said) console.log(said.result);
});
await understudy.close();
