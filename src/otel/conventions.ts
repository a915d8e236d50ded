/**
 * Names of the semantic conventions for generative AI, from open-telemetry/semantic-conventions-genai at commit
 * 002c8a6ea1c8a42b14a4527db83b3cabcded610a (docs/gen-ai/gen-ai-spans.md), as the package
 * @opentelemetry/semantic-conventions 1.45.0 exports them under `incubating`. A test compares these names with the
 * package. Data; any thread.
 */

export const GEN_AI = {
  OPERATION_NAME: 'gen_ai.operation.name',
  PROVIDER_NAME: 'gen_ai.provider.name',
  CONVERSATION_ID: 'gen_ai.conversation.id',
  REQUEST_MODEL: 'gen_ai.request.model',
  REQUEST_MAX_TOKENS: 'gen_ai.request.max_tokens',
  REQUEST_STREAM: 'gen_ai.request.stream',
  RESPONSE_ID: 'gen_ai.response.id',
  RESPONSE_MODEL: 'gen_ai.response.model',
  RESPONSE_FINISH_REASONS: 'gen_ai.response.finish_reasons',
  RESPONSE_TIME_TO_FIRST_CHUNK: 'gen_ai.response.time_to_first_chunk',
  USAGE_INPUT_TOKENS: 'gen_ai.usage.input_tokens',
  USAGE_OUTPUT_TOKENS: 'gen_ai.usage.output_tokens',
  USAGE_CACHE_READ_INPUT_TOKENS: 'gen_ai.usage.cache_read.input_tokens',
  USAGE_CACHE_CREATION_INPUT_TOKENS: 'gen_ai.usage.cache_creation.input_tokens',
  SYSTEM_INSTRUCTIONS: 'gen_ai.system_instructions',
  INPUT_MESSAGES: 'gen_ai.input.messages',
  OUTPUT_MESSAGES: 'gen_ai.output.messages',
  TOOL_NAME: 'gen_ai.tool.name',
  TOOL_TYPE: 'gen_ai.tool.type',
  TOOL_CALL_ID: 'gen_ai.tool.call.id',
  TOOL_CALL_ARGUMENTS: 'gen_ai.tool.call.arguments',
  TOOL_CALL_RESULT: 'gen_ai.tool.call.result',
} as const;

/** Names of the stable general conventions. */
export const GENERAL = {
  ERROR_TYPE: 'error.type',
  SERVER_ADDRESS: 'server.address',
  SERVER_PORT: 'server.port',
  HTTP_STATUS: 'http.response.status_code',
  SERVICE_NAME: 'service.name',
  SERVICE_VERSION: 'service.version',
  SERVICE_INSTANCE_ID: 'service.instance.id',
} as const;

/** This service's names of attributes that the conventions do not define. */
export const OWN = {
  RUN_ID: 'understudy.run.id',
  PARENT_RUN_ID: 'understudy.run.parent_id',
  RUN_KIND: 'understudy.run.kind',
  EXCHANGE_ID: 'understudy.exchange.id',
  /** `upstream` or `student`. */
  SERVED_BY: 'understudy.served_by',
  NOTE: 'understudy.note',
  /** Who ended a failed exchange, and why (domain/end-cause.ts). */
  END_CAUSE: 'understudy.end_cause',
} as const;

/**
 * Well-known values of `gen_ai.provider.name`, by this service's labels of upstreams. For other upstreams, the label
 * itself is used.
 */
export const PROVIDER_NAMES: Readonly<Record<string, string>> = {
  anthropic: 'anthropic',
  openai: 'openai',
  azure: 'azure.ai.openai',
  gemini: 'gcp.gemini',
  vertex: 'gcp.vertex_ai',
  bedrock: 'aws.bedrock',
  groq: 'groq',
  mistral: 'mistral_ai',
  deepseek: 'deepseek',
  xai: 'x_ai',
};
