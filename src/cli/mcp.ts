/** `understudy mcp`: the MCP server for an agent that starts its servers as commands. Main thread. */

import { loadAgentConnection, readVersion } from '../config.ts';
import { readFlags } from './flags.ts';
import { type CliIo, EXIT } from './io.ts';
import { renderOwnCommand } from './own-command.ts';
import { makeHarmlessLine } from './terminal-text.ts';

/** How long a tool waits for the API. The agent waits with it. */
const MCP_CALL_MS = 20_000;

const help = (
  command: string,
) => `Gives an agent tools over the Model Context Protocol, on standard input and output: retrieve_patterns,
recall_findings, record_finding, search_runs and read_run. It runs for as long as the agent keeps its input open, and calls the API of a service that
runs elsewhere. Where the agent's client can speak HTTP, the service's own address /mcp does the same without a process.

Usage: understudy mcp [--url URL] [--codebase ID] [--org ID] [--project ID]

  --url URL         where the API is; when not given SVC_BASE_URL, else http://127.0.0.1:8000
  --codebase ID     the code base of calls that name none, such as owner/name
  --org ID          the organization, and
  --project ID      the project, where the key is the operator's own; a customer's key has its own

The API key is read from SVC_API_KEY alone: other users of the machine can see the flags of a process.

Examples:
  claude mcp add understudy --env SVC_API_KEY=svc_live_... -- ${command} --codebase owner/name
  codex mcp add understudy --env SVC_API_KEY=svc_live_... -- ${command} --codebase owner/name
`;

/** @returns the exit status */
export async function runMcp(argv: string[], io: CliIo): Promise<number> {
  const values = readFlags(argv, { url: 'text', codebase: 'text', org: 'text', project: 'text' });
  if (values.help) {
    await io.out(help(renderOwnCommand(['mcp'])));
    return EXIT.done;
  }
  const { base_url, api_key } = loadAgentConnection(values.url);
  const [{ remoteApi }, { serveMcpOnStdio }] = await Promise.all([
    import('../mcp/remote-api.ts'),
    import('../mcp/stdio.ts'),
  ]);
  const tenant = {
    ...(values.org === undefined ? {} : { org_id: values.org }),
    ...(values.project === undefined ? {} : { project_id: values.project }),
  };
  const call = remoteApi({ base_url, api_key, tenant, timeout_ms: MCP_CALL_MS });
  await serveMcpOnStdio(
    { version: readVersion(), call, codebase_id: values.codebase || null },
    ({ message }) => io.err(`understudy: ${makeHarmlessLine(message)}\n`),
  );
  return EXIT.done;
}
