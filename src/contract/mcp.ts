/** The Model Context Protocol's one address: what goes in and out is the protocol's, not this API's. Data; any thread. */
import { z } from 'zod';
import { endpoint } from './endpoint.ts';

export const MCP = {
  /** One JSON-RPC message a request. Nothing is kept between two of them, so GET and DELETE have nothing to do: 405. */
  message: endpoint({
    id: 'mcp',
    method: 'POST',
    path: '/mcp',
    auth: 'bearer',
    // What a tool writes is checked again where it writes.
    writes: false,
    listed_origins: true,
    summary: 'The Model Context Protocol (Streamable HTTP, stateless)',
    tag: 'service',
    body: z.unknown(),
    replies: { 200: { description: 'A JSON-RPC answer' }, 202: { description: 'A notification was taken' } },
    // The description is of the API's own operations; this is another protocol, which describes itself.
    hidden: true,
  }),
} as const;
