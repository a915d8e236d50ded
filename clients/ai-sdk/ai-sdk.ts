/** The integration of ai-sdk, in this repository. The published package has `dist` instead. Any thread. */
export * from '../../src/integrations/ai-sdk.ts';
