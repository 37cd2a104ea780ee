/* How each kind of program sends profiles; the same lines as in README.md, with this server's address. */

export interface Snippet {
  name: string;
  install?: string;
  code: string;
}

/*
 * tenant: "": the server's default one, or the token's only one. token: "": the server asks for none. Agents send it as the password of
 * Basic, with any user, or as Bearer (deploy/operations/access.md#agents).
 */
export function snippets(url: string, tenant: string, token = ""): Snippet[] {
  const host = url.replace(/^https?:\/\//, "");
  const insecure = url.startsWith("http://");
  const user = tenant === "" ? "token" : tenant;
  const when = (given: string, text: string): string => (given === "" ? "" : text);
  const header = when(token, ` -H 'Authorization: Bearer ${token}'`) + when(tenant, ` -H 'X-Scope-OrgID: ${tenant}'`);
  const go =
    when(tenant, `\n    TenantID:        ${JSON.stringify(tenant)},`) +
    when(token, `\n    BasicAuthUser:     ${JSON.stringify(user)},\n    BasicAuthPassword: ${JSON.stringify(token)},`);
  const python =
    when(tenant, `, tenant_id=${JSON.stringify(tenant)}`) +
    when(token, `, basic_auth_username=${JSON.stringify(user)}, basic_auth_password=${JSON.stringify(token)}`);
  const node =
    when(tenant, `, tenantID: ${JSON.stringify(tenant)}`) +
    when(token, `, basicAuthUser: ${JSON.stringify(user)}, basicAuthPassword: ${JSON.stringify(token)}`);
  const ruby =
    when(tenant, `\n  config.tenant_id = ${JSON.stringify(tenant)}`) +
    when(token, `\n  config.basic_auth_username = ${JSON.stringify(user)}\n  config.basic_auth_password = ${JSON.stringify(token)}`);
  const rust =
    when(tenant, `\n    .tenant_id(${JSON.stringify(tenant)}.to_string())`) +
    when(token, `\n    .basic_auth(${JSON.stringify(user)}, ${JSON.stringify(token)})`);
  const env =
    when(tenant, ` PYROSCOPE_TENANT_ID=${tenant}`) +
    when(token, ` PYROSCOPE_BASIC_AUTH_USER=${user} PYROSCOPE_BASIC_AUTH_PASSWORD=${token}`);
  const alloy =
    when(tenant, `\n    headers = { "X-Scope-OrgID" = ${JSON.stringify(tenant)} }`) +
    when(token, `\n    bearer_token = ${JSON.stringify(token)} // or bearer_token_file`);
  const headers = [when(tenant, `X-Scope-OrgID: ${tenant}`), when(token, `Authorization: Bearer ${token}`)].filter((one) => one !== "");
  const collector = (insecure ? ", tls: {insecure: true}" : "") + (headers.length === 0 ? "" : `, headers: {${headers.join(", ")}}`);
  return [
    {
      name: "curl",
      code: `printf 'main;work;hash 30\\nmain;work;sort 10\\n' |\n  curl${header} --data-binary @- '${url}/ingest?name=demo.cpu&from=now-10s&until=now'`,
    },
    {
      name: "Go",
      install: "go get github.com/grafana/pyroscope-go",
      code: `profiler, err := pyroscope.Start(pyroscope.Config{\n    ApplicationName: "my.app",\n    ServerAddress:   "${url}",${go}\n    Tags:            map[string]string{"env": "dev"},\n}) // at the end of the program: profiler.Stop()`,
    },
    {
      name: "Go, pulled",
      code: `// in the program:\nimport _ "net/http/pprof"\ngo http.ListenAndServe("localhost:6060", nil)\n\n# settings of flamegrid:\nscrape:\n  targets: [{targets: ["localhost:6060"], labels: {service_name: my.app}}]`,
    },
    {
      name: "Java",
      install: "mvn dependency:copy -Dartifact=io.pyroscope:agent:2.9.2 -DoutputDirectory=.",
      code: `PYROSCOPE_APPLICATION_NAME=my.app PYROSCOPE_SERVER_ADDRESS=${url}${env} \\\n  java -javaagent:agent-2.9.2.jar -jar my-app.jar`,
    },
    {
      name: "Python",
      install: "pip install pyroscope-io",
      code: `import pyroscope\npyroscope.configure(application_name="my.app", server_address="${url}"${python}, tags={"env": "dev"})`,
    },
    {
      name: "Node.js",
      install: "npm install @pyroscope/nodejs",
      code: `const Pyroscope = require('@pyroscope/nodejs');\nPyroscope.init({ appName: 'my.app', serverAddress: '${url}'${node}, tags: { env: 'dev' } });\nPyroscope.start(); // it sends once a minute`,
    },
    {
      name: "Ruby",
      install: "bundle add pyroscope",
      code: `require "pyroscope"\nPyroscope.configure do |config|\n  config.application_name = "my.app"\n  config.server_address = "${url}"${ruby}\nend`,
    },
    {
      name: "Rust",
      install: "cargo add pyroscope --features backend-pprof-rs",
      code: `use pyroscope::backend::{pprof_backend, BackendConfig, PprofConfig};\nuse pyroscope::pyroscope::PyroscopeAgentBuilder;\n\nlet backend = pprof_backend(PprofConfig::default(), BackendConfig::default());\nlet agent = PyroscopeAgentBuilder::new("${url}", "my.app", 100, "pyroscope-rs", "2.1", backend)${rust}\n    .build()?\n    .start()?; // at the end of the program: agent.stop()?.shutdown()`,
    },
    {
      name: ".NET",
      code: `# on Linux, with the two libraries of github.com/grafana/pyroscope-dotnet in the program's folder\nexport PYROSCOPE_APPLICATION_NAME=my.app PYROSCOPE_SERVER_ADDRESS=${url}${env} PYROSCOPE_PROFILING_ENABLED=1\nexport CORECLR_ENABLE_PROFILING=1 CORECLR_PROFILER={BD1A650D-AC5D-4896-B64F-D6FA25D6B26A}\nexport CORECLR_PROFILER_PATH=$PWD/Pyroscope.Profiler.Native.so LD_PRELOAD=$PWD/Pyroscope.Linux.ApiWrapper.x64.so\ndotnet my-app.dll`,
    },
    {
      name: "eBPF",
      code: `# every process of a host, with Grafana Alloy as root\ndiscovery.process "all" { }\n\npyroscope.ebpf "host" {\n  targets    = discovery.process.all.targets\n  forward_to = [pyroscope.write.flamegrid.receiver]\n}\n\npyroscope.write "flamegrid" {\n  endpoint {\n    url = "${url}"${alloy}\n  }\n}`,
    },
    {
      name: "OpenTelemetry",
      code: `# the Collector, started with --feature-gates=service.profilesSupport\nreceivers: {otlp: {protocols: {grpc: {endpoint: "127.0.0.1:4317"}}}}\nexporters: {otlp_grpc: {endpoint: "${host}"${collector}}}\nservice: {pipelines: {profiles: {receivers: [otlp], exporters: [otlp_grpc]}}}`,
    },
  ];
}
