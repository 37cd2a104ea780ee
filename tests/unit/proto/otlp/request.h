/*
 * Requests as text, and the text that comes of them. Everything is a string literal, so that a
 * request is as long as what is special about it.
 */
#ifndef FG_TESTS_UNIT_PROTO_OTLP_REQUEST_H
#define FG_TESTS_UNIT_PROTO_OTLP_REQUEST_H

/*
 * The dictionary of most requests, and what its entries are.
 * stacks: 1 main;work 2 main 3 main;0x1234 4 main;outer;inlined 5 (nothing);main 6 main;0x5678
 * attributes: 1 thread.name=t1 2 service.name=other 3 thread.id=77 4 build id 5 bool 6 array
 */
#define STRINGS                                                                                    \
    "['','samples','count','cpu','nanoseconds','main','work','main.c','inlined','outer'," /* 0 */  \
    "'off_cpu','events','thread.name','service.name','thread.id','flag','list',"          /* 10 */ \
    "'process.executable.build_id.gnu','/bin/app','alloc_space','bytes','space',"         /* 17 */ \
    "'process.executable.build_id.htlhash','t2']"                                         /* 22 */
#define DICTIONARY                                                                                 \
    "{'stringTable':" STRINGS ","                                                                  \
    "'functionTable':[{},{'nameStrindex':5,'filenameStrindex':7,'startLine':'3'},"                 \
    "{'nameStrindex':6,'filenameStrindex':7},{'nameStrindex':8},{'nameStrindex':9}],"              \
    "'mappingTable':[{},{'memoryStart':'4096','memoryLimit':'8192','fileOffset':'16',"             \
    "'filenameStrindex':18,'attributeIndices':[7,4]},"                                             \
    "{'memoryStart':'1','filenameStrindex':18,'attributeIndices':[7]}],"                           \
    "'locationTable':[{},{'lines':[{'functionIndex':1,'line':'10'}]},"                             \
    "{'mappingIndex':1,'address':'4660','lines':[{'functionIndex':2,'line':'20'}]},"               \
    "{'mappingIndex':1,'address':'4660'},"                                                         \
    "{'mappingIndex':1,'address':'9','lines':[{'functionIndex':3},{'functionIndex':4}]},"          \
    "{'mappingIndex':2,'address':'22136','lines':[{'functionIndex':0,'line':'1'}]}],"              \
    "'linkTable':[{},{'traceId':'000102030405060708090a0b0c0d0e0f','spanId':'0100000000000000'}]," \
    "'attributeTable':[{'value':{}},{'keyStrindex':12,'value':{'stringValue':'t1'}},"              \
    "{'keyStrindex':13,'value':{'stringValue':'other'}},"                                          \
    "{'keyStrindex':14,'value':{'intValue':'77'}},{'keyStrindex':17,'value':{'stringValue':'b1'}}" \
    ",{'keyStrindex':15,'value':{'boolValue':true}},{'keyStrindex':16,'value':"                    \
    "{'arrayValue':{'values':[{'stringValue':'one'}]}}},"                                          \
    "{'keyStrindex':22,'value':{'stringValue':'hash'}},"                                           \
    "{'keyStrindex':12,'value':{'stringValueStrindex':23}}],"                                      \
    "'stackTable':[{},{'locationIndices':[2,1]},{'locationIndices':[1]},"                          \
    "{'locationIndices':[3,1]},{'locationIndices':[4,1]},{'locationIndices':[1,0]},"               \
    "{'locationIndices':[5,1]}]}"

#define CPU    "'sampleType':{'typeStrindex':1,'unitStrindex':2},"
#define PERIOD "'periodType':{'typeStrindex':3,'unitStrindex':4},'period':'100',"
#define TIMES  "'timeUnixNano':'5000','durationNano':'50',"

/* A request of these resources and that dictionary, or another. */
#define REQUEST_WITH(dictionary, resources)                                                        \
    "{'resourceProfiles':[" resources "],'dictionary':" dictionary "}"
#define REQUEST(resources) REQUEST_WITH(DICTIONARY, resources)
#define RESOURCE(attributes, profiles)                                                             \
    "{'resource':{'attributes':[" attributes "]},'scopeProfiles':[{'profiles':[" profiles "]}]}"
#define SHOP       "{'key':'service.name','value':{'stringValue':'shop'}}"
#define ONE(body)  REQUEST(RESOURCE(SHOP, "{" CPU PERIOD TIMES body "}"))
#define SAMPLES(s) "'samples':[" s "]"

/* A profile of the CPU with one sample of that stack. */
#define CPU_ONE_OF(stack) "{" CPU PERIOD TIMES SAMPLES("{'stackIndex':" stack ",'values':[1]}") "}"
#define CPU_ONE           CPU_ONE_OF("2")

/* A profile of that type, of no service. */
#define TYPED(fields) REQUEST(RESOURCE("", "{" fields SAMPLES("{'stackIndex':2,'values':[3]}") "}"))
#define TYPE(type, unit)                                                                           \
    "'sampleType':{'typeStrindex':" #type ",'unitStrindex':" #unit "},'timeUnixNano':'5',"
#define PERIOD_OF(type, unit, value)                                                               \
    "'periodType':{'typeStrindex':" #type ",'unitStrindex':" #unit "},'period':'" #value "',"

/* --- what comes out --- */

/* What every profile of ONE() has in front. */
#define HEAD                                                                                       \
    "{__name__=\"process_cpu\", __otel__=\"true\", service.name=\"shop\", "                        \
    "service_name=\"shop\"} at 5000 for 50 period cpu/nanoseconds 100\ncpu/nanoseconds\n"

#define LABELS(labels) "{" labels "} at 5000 for 50 period cpu/nanoseconds 100\ncpu/nanoseconds\n"
#define SERVICE(name)                                                                              \
    LABELS("__name__=\"process_cpu\", __otel__=\"true\", service_name=\"" name "\"")

#endif
