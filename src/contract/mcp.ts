/**
 * The address of the Model Context Protocol. Requests and answers have the protocol's form, not this API's.
 * Data; any thread.
 */
import { z } from 'zod';
import { endpoint } from './endpoint.ts';

export const MCP = {
  /** One JSON-RPC message per request. The server keeps no session, so GET and DELETE answer 405. */
  message: endpoint({
    id: 'mcp',
    method: 'POST',
    path: '/mcp',
    auth: 'bearer',
    // The route that a tool calls checks each write again.
    writes: false,
    listed_origins: true,
    summary: 'The Model Context Protocol (Streamable HTTP, stateless)',
    tag: 'service',
    body: z.unknown(),
    replies: { 200: { description: 'A JSON-RPC answer' }, 202: { description: 'A notification was taken' } },
    // Hidden, because the description covers only this API's operations. The Model Context Protocol describes itself.
    hidden: true,
  }),
} as const;
