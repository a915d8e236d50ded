/** The Model Context Protocol on standard input and output, until the client closes the input. Main thread. */
import { once } from 'node:events';
import { StdioServerTransport, serveStdio } from '@modelcontextprotocol/server/stdio';
import { DEFAULTS } from '../limits.ts';
import { createMcpServer, type McpServerOptions } from './server.ts';

/** Serves the protocol. Resolves when the client has closed the input; calls in progress are then aborted. */
export async function serveMcpOnStdio(
  options: McpServerOptions,
  onError: (error: Error) => void,
): Promise<void> {
  const { stdin, stdout } = process;
  const ended = once(stdin, 'close');
  const served = serveStdio(() => createMcpServer(options), {
    transport: new StdioServerTransport(stdin, stdout, { maxBufferSize: DEFAULTS.MAX_BODY_BYTES }),
    onerror: onError,
  });
  await ended;
  await served.close();
}
