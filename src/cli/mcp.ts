/** `understudy mcp`: the MCP server for an agent that starts its servers as commands. Main thread. */

import { loadAgentConnection, readVersion } from '../config.ts';
import type { CliIo } from './io.ts';
import { runMcpCommand } from './mcp-command.ts';
import { renderOwnCommand } from './own-command.ts';

/** Runs `understudy mcp`. @returns the exit status */
export async function runMcp(argv: string[], io: CliIo): Promise<number> {
  return runMcpCommand(argv, io, {
    name: 'understudy mcp',
    line: renderOwnCommand(['mcp']),
    version: readVersion(),
    connect: (url) => loadAgentConnection(url),
  });
}
