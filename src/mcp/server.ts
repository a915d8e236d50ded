/** A server of the protocol with the tools in it, for one request or one connection. Any thread. */
import { McpServer } from '@modelcontextprotocol/server';
import { INSTRUCTIONS, makeTools, type ToolOptions } from './tools.ts';

export interface McpServerOptions extends ToolOptions {
  /** The product's. */
  version: string;
}

/** @returns a server that is connected to nothing yet */
export function createMcpServer({ version, ...options }: McpServerOptions): McpServer {
  const server = new McpServer(
    { name: 'understudy', title: 'Understudy', version },
    // The tools are always the same: there is nothing to subscribe to.
    { capabilities: { tools: { listChanged: false } }, instructions: INSTRUCTIONS },
  );
  for (const { name, run, ...config } of makeTools(options)) {
    server.registerTool(name, config, (input: unknown) => run(input as never));
  }
  return server;
}
