/**
 * Which test files make up the projects `unit` and `process`; all others are `shared` (vitest.config.ts). Loaded by
 * Vitest's own process and by a house test.
 */

/**
 * Test files that open no port, start no thread or process, and change nothing outside themselves, as globs from the
 * root.
 */
export const UNIT = [
  'test/domain/**/*.test.ts',
  'test/contract/**/*.test.ts',
  'test/client/difficulty.test.ts',
  'test/std/!(file-place|loading-threads|own-thread|shared-locks|std|usable-cores|zstd).test.ts',
  'test/integrations/agent-steps.test.ts',
  'test/captures/**/*.test.ts',
  'test/bench/held-back-judges.test.ts',
  'test/teaching/**/*.test.ts',
  'test/providers/**/*.test.ts',
  'test/student/model/**/*.test.ts',
  'test/gateway/{known-headers,run-labels}.test.ts',
  'test/gateway/upstream/response-parser.test.ts',
  'test/http/{allowed-hosts,recorded-cases}.test.ts',
  'test/actors/{live-exchange,live-hub,shared-hub,rate-bucket,rate-exchange,run,usage-meter,capture-batch,fault-history}.test.ts',
  'test/api/{byte-stream,capture-exports,clock-jumps,declared-bounds,dispatch}.test.ts',
  'test/api/{experiments,patterns,retrieve,stream-credentials}.test.ts',
  'test/bench/{growth,held-back-judges,held-back-offline,soak}.test.ts',
  'test/cli/{banner,inspect,remaining-time}.test.ts',
  'test/label/{labelled-target,wire-paths}.test.ts',
  'test/native/{byte,vector}-engine.test.ts',
  'test/runtime/{ask-owner,claims,host,recorder}.test.ts',
  'test/otel/{conventions,turn-spans}.test.ts',
  'test/proxy/name-lookups.test.ts',
  'test/redaction/{escaped-text,key-shapes,redaction,shape-match,work}.test.ts',
  'test/search/{embedder-config,embedder-features,stored-vectors,word-tokens}.test.ts',
  'test/sim/{orders,simulation}.test.ts',
  'test/storage/{accounts-usage,capture-record,packing-share,run-reads,stream-secrets,text-words}.test.ts',
  'test/student/serving/{request-rules,service-step,tool-schemas,step-handler}.test.ts',
  'test/house/{bench-results,clocks,config,configuration,docs,errors,exports,import-direction}.test.ts',
  'test/house/{lazy-driver,permissions,test-rules,threads,unit-tests}.test.ts',
  'test/threads/{background-rest,limit-relations,quiet-watch,service-parts}.test.ts',
] as const;

/**
 * Files that change their process: its environment, its global names, its timers, how Node's HTTP parser or `fetch`
 * works, or native memory that they damage. Each has its own process, which costs a third of a second. All of
 * test/house is in `unit` or here, because it is often run alone.
 */
export const OWN = [
  'test/api/docs.test.ts',
  'test/cli/refused-start.test.ts',
  'test/client/edge.test.ts',
  'test/dashboard/session.test.ts',
  'test/gateway/tunnel-over-tls.test.ts',
  'test/house/{newcomers,service-bundle,supply-chain,vocabulary}.test.ts',
  'test/http/{busy-poll,connections,framing-guard,framing,known-heads,plain-listener}.test.ts',
  'test/http/{raw-head-over-tls,raw-head,tls}.test.ts',
  'test/label/{contexts,gateway,threads,transparency}.test.ts',
  'test/native/{argument-fuzzing,memory-engine,socket-engine}.test.ts',
  'test/proxy/{authority,clients,hostile,slow-heads}.test.ts',
  'test/runtime/{direct-channel,message-port-link,thread-care,threads}.test.ts',
  'test/std/{loading-threads,own-thread,usable-cores}.test.ts',
  'test/storage/{object-store,offload,redo-log}.test.ts',
] as const;
