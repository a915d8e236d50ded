/** Makes a server of the protocol that has the tools, for one request or one connection. Any thread. */
import { McpServer } from '@modelcontextprotocol/server';
import { INSTRUCTIONS, makeTools, type ToolOptions } from './tools.ts';

export interface McpServerOptions extends ToolOptions {
  /** Version of the product. */
  version: string;
}

/** Makes a server with all tools, which is not connected yet. */
export function createMcpServer({ version, ...options }: McpServerOptions): McpServer {
  const server = new McpServer(
    { name: 'understudy', title: 'Understudy', version },
    // The list of tools never changes, so clients need no notification of changes.
    { capabilities: { tools: { listChanged: false } }, instructions: INSTRUCTIONS },
  );
  for (const { name, run, ...config } of makeTools(options)) {
    server.registerTool(name, config, (input: unknown) => run(input as never));
  }
  return server;
}
