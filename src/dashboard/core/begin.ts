/**
 * Instructions for sending a client's traffic through the gateway: one entry for each SDK and coding agent.
 * Browser.
 */

interface Beginning {
  name: string;
  /** What the reader must know first. */
  words: string;
  snippet: string;
}

/** Lists what a person types so that agents use the gateway. @param gateway its address, without a trailing slash */
export function listBeginnings(gateway: string): Beginning[] {
  return [
    {
      name: 'Claude Code',
      words: 'One variable; the agent keeps its own sign-in or key.',
      snippet: `ANTHROPIC_BASE_URL=${gateway} claude`,
    },
    {
      name: 'Codex',
      words:
        'The gateway must lead to OpenAI: start it with GW_UPSTREAM_BASE=https://api.openai.com GW_PROVIDER=openai.',
      snippet: `OPENAI_BASE_URL=${gateway}/v1 codex`,
    },
    {
      name: 'Anthropic SDK',
      words: 'TypeScript; Python takes base_url in the same way, and both read ANTHROPIC_BASE_URL.',
      snippet: [
        "import Anthropic from '@anthropic-ai/sdk';",
        '',
        `const client = new Anthropic({ baseURL: '${gateway}' });`,
      ].join('\n'),
    },
    {
      name: 'OpenAI SDK',
      words:
        'The gateway must lead to OpenAI: start it with GW_UPSTREAM_BASE=https://api.openai.com GW_PROVIDER=openai.',
      snippet: ['from openai import OpenAI', '', `client = OpenAI(base_url="${gateway}/v1")`].join('\n'),
    },
    {
      name: 'Gemini SDK',
      words: 'TypeScript; the variable GOOGLE_GEMINI_BASE_URL does the same.',
      snippet: [
        "import { GoogleGenAI } from '@google/genai';",
        '',
        `const client = new GoogleGenAI({ httpOptions: { baseUrl: '${gateway}/gemini' } });`,
      ].join('\n'),
    },
    {
      name: 'Bedrock',
      words: 'With AWS_BEARER_TOKEN_BEDROCK.',
      snippet: `export AWS_ENDPOINT_URL_BEDROCK_RUNTIME=${gateway}/bedrock/us-east-1`,
    },
    {
      name: 'curl',
      words: 'A first request that tests the connection.',
      snippet: [
        `curl ${gateway}/v1/messages -H "x-api-key: $ANTHROPIC_API_KEY" \\`,
        "  -H 'anthropic-version: 2023-06-01' -H 'content-type: application/json' \\",
        `  -d '{"model":"claude-haiku-4-5","max_tokens":64,"messages":[{"role":"user","content":"Say hello"}]}'`,
      ].join('\n'),
    },
  ];
}
